// The program as a user calls it: what it prints, what it writes, and how it fails.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "support/limited.h"
#include "support/text_of_file.h"
#include "tools/program.h"

namespace laconic::test {
namespace {

namespace fs = std::filesystem;

constexpr std::array kCommands{"",        "info",     "bench", "bench kernels", "bench exchange", "bench methods",
                               "methods", "problems", "train", "compare",       "reproduce",      "report"};

/// What a command says of itself. The program starts once for each: with PyTorch in it a start takes half a second.
const Outcome& help(const std::string& command) {
  static std::map<std::string, Outcome> known;
  const auto [at, is_new] = known.try_emplace(command);
  if (is_new) at->second = laconic(command + " --help");
  return at->second;
}

TEST(Program, TeachesItsUse) {
  for (const char* command : kCommands) {
    const Outcome& outcome = help(command);
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_TRUE(contains(outcome.text, "Example")) << command << '\n' << outcome.text;
  }
}

TEST(Program, AloneTeachesToo) {
  const Outcome outcome = laconic("");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.text, help("").text);
}

// A flag that several methods share says what holds for each of them.
TEST(Program, HelpTellsParametersOfAllMethods) {
  const std::string text = help("train").text;
  std::string flat;
  std::istringstream words(text);
  for (std::string word; words >> word;) flat += word + " ";
  for (const char* part :
       {"of topk, regtopk, def-topk, sparseloco: automatic | gather | range",
        "Of qsgd, terngrad, dqsgd: gather | scatter", "Of block-quant: gather | scatter",
        "Of easgd: [0, 1]: how far a round moves the centre", "of dqsgd: 1..1000000000000: steps of the run",
        "Of mgrawa, lgrawa, easgd, lsgd, localsgd: 0..1000000000000",
        "default 1 (def-topk), 32 (diloco), 30 (sparseloco), 16 (mgrawa, lgrawa), 8 (easgd, lsgd, localsgd)",
        "default 0.01 (topk, regtopk, randk), 0.02 (def-topk), 1 (diloco, mgrawa, lgrawa, easgd, lsgd, localsgd), "
        "0.015625 (sparseloco)"}) {
    EXPECT_TRUE(contains(flat, part)) << part << '\n' << text;
  }
}

// A machine's limits end a run with a sentence: neither a hang nor the name of a C++ exception.
TEST(Program, TellsOfLimitsOfThreadsAndMemory) {
  if (!can_limit_memory()) GTEST_SKIP() << "sanitizers need all addresses";
  const auto expect_refused = [](const std::string& arguments, const std::string& part, const std::string& remedy) {
    const Outcome outcome = shell("ulimit -v 6000000; timeout 60 '" LACONIC_PROGRAM
                                  "' train --problem noisy-quadratic --steps 5 " +
                                  arguments);
    EXPECT_EQ(outcome.code, 1) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "laconic: " + part)) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, remedy)) << outcome.text;
  };
  for (const char* workers : {"1", "3"}) {
    expect_refused(std::string("--threads 1024 --workers ") + workers, "1024 threads were asked for and ",
                   "lower threads (--threads");
  }
  expect_refused("--set dimension=100000000 --workers 16", "not enough memory", "run fewer ranks on this machine");
}

TEST(Program, TellsItsVersion) {
  const Outcome outcome = laconic("--version");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.text, "laconic " LACONIC_VERSION "\n");
}

TEST(Program, TellsWhatItCanDo) {
  const Outcome outcome = laconic("info", "LACONIC_SIMD=reference");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  for (const char* part :
       {"wire version", "SIMD level     reference, vectors: none", "portable", "threads", "GPU", "MPI", "CUDA", "PyTorch",
        "report"}) {
    EXPECT_TRUE(contains(outcome.text, part)) << part << '\n' << outcome.text;
  }
}

TEST(Program, RefusesBadCallsInOneLine) {
  expect_one_line_error(laconic("bench"), 2, "kernels");
  expect_one_line_error(laconic("fly"), 2, "fly");
  expect_one_line_error(laconic("trian"), 2, "did you mean train?");
  expect_one_line_error(laconic("kernels bench"), 2, "did you mean bench kernels?");
  expect_one_line_error(laconic("bench kernel"), 2, "did you mean kernels?");
  expect_one_line_error(laconic("help"), 2, "laconic --help");
  expect_one_line_error(laconic("--n 10 bench kernels"), 2, "--n stands before the command");
  expect_one_line_error(laconic("bench kernels --threads many"), 2, "0..1024, got \"many\"");
  expect_one_line_error(laconic("bench kernels --n 0"), 2, "1..4294967296, got \"0\"");
  expect_one_line_error(laconic("bench kernels --n abc"), 2, "1..4294967296, got \"abc\"");
  expect_one_line_error(laconic("bench kernels --n"), 2, "--n needs a value");
  expect_one_line_error(laconic("bench kernels --repeats 3 --filter"), 2, "--filter needs a value");
  expect_one_line_error(laconic("train --learning-rate"), 2, "--learning-rate needs a value");
  expect_one_line_error(laconic("reproduce --seeds x"), 2, "1..1000, got \"x\"");
  expect_one_line_error(laconic("reproduce --seeds 0"), 2, "1..1000, got \"0\"");
  expect_one_line_error(laconic("reproduce regtopk-toy --steps 100"), 2, "--steps is about the deep claims");
  expect_one_line_error(laconic("bench kernels --wings 2"), 2, "wings");
  expect_one_line_error(laconic("bench exchange --workers 2,0"), 2, "workers");
  expect_one_line_error(laconic("info", "LACONIC_SIMD=mmx"), 2, "mmx");
}

// An empty value is mostly a variable of a script that was not set: it is no default.
TEST(Program, RefusesEmptyValues) {
  for (const char* call :
       {"train --method ''", "train --problem ''", "train --task ''", "train --config ''", "train --out ''",
        "train --resume ''", "train --set ''", "train --steps ''", "train --lr ''", "train --schedule ''",
        "train --slowdown ''", "train --optimizer ''", "train --keep ''", "train --union ''", "train --model ''",
        "train --data ''", "compare --methods ''", "compare --out ''", "diagnose ''",
        "diagnose --task ''", "reproduce ''", "reproduce --deep --runs ''", "reproduce --deep --out ''",
        "reproduce --deep --results ''", "data list --data ''", "data get ''", "report ''", "report x --out ''",
        "methods ''", "bench kernels --filter ''", "bench exchange --filter ''"}) {
    expect_one_line_error(laconic(call), 2, "must not be empty");
  }
  expect_one_line_error(laconic("train --set method.name="), 2, "--set method.name= has no value");
  expect_one_line_error(laconic("train --set model="), 2, "--set model= has no value");
}

TEST(Program, RefusesNumbersThatAreNone) {
  for (const char* flag : {"--learning-rate", "--compute-seconds", "--timeout", "--momentum", "--weight-decay",
                           "--slowdown", "--keep", "--skew", "--set noise"}) {
    for (const char* value : {"nan", "inf", "-inf", "1e999"}) {
      const std::string name = flag;
      const std::string task = name == "--skew" ? "--task digits " : "--problem noisy-quadratic ";
      const std::string given = name.starts_with("--set ") ? name + "=" + value : name + " " + value;
      const Outcome outcome = laconic("train --method topk " + task + given);
      expect_one_line_error(outcome, 2, name.substr(name.find_last_of("- ") + 1));
      EXPECT_TRUE(contains(outcome.text, "must be ")) << outcome.text;
    }
  }
  for (const char* value : {"nan", "inf", "-1", "1e999", "x"}) {
    expect_one_line_error(laconic(std::string("reproduce --deep --seconds ") + value), 2,
                          "--seconds: must be a finite number, 0 or more, got \"" + std::string(value) + "\"");
  }
}

// A GPU is for networks, in a build that can use one. What it would have written does not exist.
TEST_F(Files, SaysWhyAGpuCannotBeUsed) {
  expect_one_line_error(laconic("train --problem vincent --device cuda"), 2, "--device is about networks");
#if LACONIC_TORCH && !LACONIC_CUDA
  const std::string reason = "device cuda cannot be used: this build has no CUDA. Install";
  expect_one_line_error(laconic("train --task digits --device cuda --out '" + file("run") + "'"), 2, reason);
  expect_one_line_error(laconic("compare --task digits --device cuda --out '" + file("run") + "'"), 2, reason);
  expect_one_line_error(laconic("reproduce --deep --device cuda --out '" + file("run") + "'"), 2, reason);
#endif
#if LACONIC_TORCH
  expect_one_line_error(laconic("diagnose --task digits --device cuda"), 2, "diagnose measures on the CPU");
#endif
  EXPECT_FALSE(std::filesystem::exists(file("run")));
}

// Without PyTorch, without the data set, or without such a claim: told at once, in a line.
TEST_F(Files, SaysWhatDeepClaimsNeed) {
  const Outcome claim = laconic("reproduce --deep def-divergense");
  const Outcome data = laconic("reproduce --deep --data '" + file("none") + "' --out '" + file("runs") + "'");
  const Outcome device = laconic("reproduce --deep --device abacus --data '" + file("none") + "'");
  expect_one_line_error(claim, 2, "did you mean def-divergence?");
#if LACONIC_TORCH
  expect_one_line_error(device, 2, "device must be cpu or cuda, got \"abacus\"");
  expect_one_line_error(data, 1, "fashion-mnist needs");
#else
  expect_one_line_error(data, 2, "built without PyTorch");
  expect_one_line_error(device, 2, "built without PyTorch");
#endif
  EXPECT_FALSE(std::filesystem::exists(file("runs")));
}

TEST(Program, SuggestsNothingThatIsFar) {
  const Outcome outcome = laconic("bench kernels --wings 2");
  EXPECT_FALSE(contains(outcome.text, "did you mean")) << outcome.text;
  EXPECT_TRUE(contains(laconic("fly").text, "there are info, bench")) << laconic("fly").text;
}

TEST(Program, HelpFitsAPageAndTellsExitCodes) {
  EXPECT_TRUE(contains(help("").text, "Exit codes: 0"));
  for (const char* command : kCommands) {
    std::istringstream lines(help(command).text);
    std::string line;
    while (std::getline(lines, line)) {
      EXPECT_LE(line.size(), 120U) << command << ": " << line;
      if (!line.starts_with("  --")) continue;
      EXPECT_EQ(line.substr(0, line.find(' ', 2)).find('_'), std::string::npos) << "one spelling is enough: " << line;
    }
  }
}

TEST_F(Files, OfJsonStandBesideTheTextOrInItsPlace) {
  for (const char* command : {"info", "methods", "problems", "reproduce --list"}) {
    const std::string plain = laconic(command).text;
    const Outcome on_stdout = laconic(std::string(command) + " --json");
    ASSERT_EQ(on_stdout.code, 0) << on_stdout.text;
    EXPECT_FALSE(nlohmann::json::parse(on_stdout.text).empty()) << command;
    EXPECT_EQ(laconic(std::string(command) + " --json -").text, on_stdout.text) << command;
    const Outcome with_file = laconic(std::string(command) + " --json '" + file("x.json") + "'");
    EXPECT_EQ(with_file.code, 0);
    EXPECT_EQ(with_file.text, plain) << command;
    EXPECT_EQ(json("x.json"), nlohmann::json::parse(on_stdout.text)) << command;
  }
}

TEST_F(Files, OfBenchesAreJsonOnStdoutToo) {
  const Outcome kernels = laconic("bench kernels --n 1000 --repeats 1 --filter axpy --no-torch --json");
  ASSERT_EQ(kernels.code, 0) << kernels.text;
  EXPECT_EQ(nlohmann::json::parse(kernels.text)[0].at("kernel"), "axpy");
  const Outcome exchanges = laconic("bench exchange --n 1000 --workers 2 --filter vote --json");
  ASSERT_EQ(exchanges.code, 0) << exchanges.text;
  EXPECT_EQ(nlohmann::json::parse(exchanges.text)[0].at("exchange"), "vote");
}

TEST_F(Files, AreRefusedBeforeTheWork) {
  const Outcome outcome = laconic("bench kernels --json '" + file("no/such/folder.json") + "'");
  expect_one_line_error(outcome, 1, "folder.json");
}

TEST_F(Files, OfKernelsHaveTheKeys) {
  const Outcome outcome = laconic("bench kernels --n 20011 --repeats 3 --threads 2 --json '" + file("k.json") + "'");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  std::set<std::string> kernels;
  for (const auto& row : json("k.json")) {
    kernels.insert(row.at("kernel").get<std::string>());
    EXPECT_EQ(row.at("n"), 20011);
    EXPECT_EQ(row.at("threads"), 2);
    EXPECT_TRUE(contains(outcome.text, row.at("implementation").get<std::string>()));
    EXPECT_TRUE(outcome.text.starts_with("20011 values, 0 MB a gradient; 2 threads\n")) << outcome.text;
    const double seconds = row.at("seconds");
    const double stream = row.at("stream_seconds");
    EXPECT_GT(seconds, 0.0);
    EXPECT_GT(stream, 0.0);
    EXPECT_DOUBLE_EQ(row.at("ratio").get<double>(), seconds / stream);
    if (row.contains("torch_seconds")) {
      EXPECT_DOUBLE_EQ(row.at("torch_ratio").get<double>(), row.at("torch_seconds").get<double>() / seconds);
    }
  }
  for (const char* kernel : {"topk_cold",  "topk_warm",  "topk_wrong_guess", "topk_clustered",   "topk_layered",
                             "topk_tied",  "regtopk",    "sign_pack",        "sign_unpack",      "vote",
                             "quantize_4", "quantize_8", "dequantize_add_4", "dequantize_add_8", "norm_l2",
                             "norm_max",   "to_f16",     "to_bf16",          "from_f16",         "scatter_add",
                             "axpy",       "mean",       "checksum",         "gather_blocks",    "scope_norms",
                             "topk_chunk", "topk_sign",  "topk_two",         "quantize_scopes_4",
                             "dequantize_scopes_4"}) {
    EXPECT_TRUE(kernels.contains(kernel)) << kernel;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "something was left behind";
}

TEST_F(Files, OfOneLevelAndAFilterHoldNothingElse) {
  const Outcome outcome =
      laconic("bench kernels --n 1000 --repeats 1 --filter axpy,vote --no-torch --json '" + file("k.json") + "'",
              "LACONIC_SIMD=reference");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const auto rows = json("k.json");
  ASSERT_EQ(rows.size(), 2U);
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("implementation"), "reference");
    EXPECT_FALSE(row.contains("torch_seconds"));
  }
  expect_one_line_error(laconic("bench kernels --filter nosuchkernel"), 2, "nosuchkernel");
}

TEST_F(Files, OfExchangesHaveTheKeys) {
  const Outcome outcome = laconic("bench exchange --n 100003 --workers 2,3 --json '" + file("x.json") + "'");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  std::set<std::string> exchanges;
  for (const auto& row : json("x.json")) {
    const std::string exchange = row.at("exchange");
    exchanges.insert(exchange);
    EXPECT_EQ(row.at("n"), 100003);
    EXPECT_EQ(row.at("overlap").is_null(), !exchange.starts_with("sparse")) << exchange;
    EXPECT_GT(row.at("payload_bytes"), 0);
    EXPECT_DOUBLE_EQ(row.at("bits_per_coordinate").get<double>(),
                     8.0 * row.at("sent_bytes_per_rank").get<double>() / 100003.0);
  }
  const std::set<std::string> expected{"dense",
                                       "block",
                                       "sparse_gather",
                                       "sparse_range",
                                       "sparse_range_keep",
                                       "sparse_sign",
                                       "sparse_sign_coded",
                                       "sparse_two_coded",
                                       "sparse_leader",
                                       "vote",
                                       "quantized_gather",
                                       "quantized_scatter",
                                       "quantized_by_chunk"};
  EXPECT_EQ(exchanges, expected);
  EXPECT_EQ(json("x.json").size(), 2 * (6 + 7 * 3U));
}

TEST_F(Files, OfMethodsHaveTheKeys) {
  const Outcome outcome =
      laconic("bench methods --n 20011 --repeats 1 --filter topk,def --json '" + file("m.json") + "'");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const auto rows = json("m.json");
  ASSERT_EQ(rows.size(), 4U) << "topk, regtopk, def, def-topk";
  for (const auto& row : rows) {
    EXPECT_TRUE(contains(outcome.text, row.at("method").get<std::string>()));
    EXPECT_EQ(row.at("n"), 20011);
    EXPECT_EQ(row.at("workers"), 2);
    // One repeat: the median of the ratios is the ratio.
    EXPECT_NEAR(row.at("overhead").get<double>(),
                row.at("seconds").get<double>() / row.at("bare_seconds").get<double>() - 1.0, 1e-9);
    EXPECT_GT(row.at("cpu_seconds"), 0.0);
    EXPECT_TRUE(row.contains("bare_cpu_seconds") && row.contains("cpu_overhead") && row.contains("bare"));
  }
  expect_one_line_error(laconic("bench methods --filter nosuchmethod"), 2, "nosuchmethod");
}

/// With what it prints going to a full disk, and its errors to the outcome.
Outcome laconic_on_full_disk(const std::string& arguments) {
  return shell(std::string("('") + LACONIC_PROGRAM + "' " + arguments + " > /dev/full)");
}

TEST(Program, ShowsCombinationsAsTheirPageDoes) {
  const Outcome shown = laconic("methods --combinations");
  EXPECT_EQ(shown.code, 0);
  EXPECT_TRUE(contains(text_of_file(std::string(LACONIC_DOCS) + "/combinations.md"), "```text\n" + shown.text + "```\n"))
      << "put this into the block of docs/combinations.md:\n"
      << shown.text;
  std::stringstream lines(shown.text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120U) << line;
  const auto json = nlohmann::json::parse(laconic("methods --combinations --json").text);
  EXPECT_GT(json.at("tried"), 1'000);
  const auto& refused = json.at("refused");
  EXPECT_TRUE(std::any_of(refused.begin(), refused.end(), [](const auto& each) {
    return each.at("options").size() == 2 && each.at("options")[0].at("option") == "rounding" &&
           each.at("options")[1].at("choices") == nlohmann::json{"none"} && !each.at("reason").empty();
  })) << refused;
}

TEST(Program, TakesAWordAfterJsonForANameUnlessItHasADot) {
  EXPECT_EQ(nlohmann::json::parse(laconic("methods --json topk").text).size(), 1U);
  expect_one_line_error(laconic("methods --json nodot"), 2, "If it is a file, its name needs a dot or a slash: --json ./nodot");
  expect_one_line_error(laconic("reproduce --list --json nodot"), 2, "--json ./nodot");
}

TEST(Program, FailsIfWhatItPrintsCannotBeWritten) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const std::string run = "--problem noisy-quadratic --set dimension=4 --steps 2 --workers 2";
  for (const std::string& command :
       {std::string("--help"), std::string("--version"), std::string("train --help"), std::string("info"),
        std::string("info --json"), std::string("methods --json"), std::string("problems --json"),
        std::string("data list --json"), std::string("reproduce --list --json"), "train " + run, "train --json " + run,
        "compare --methods sgd,topk --json " + run, "compare --methods sgd,topk --json - " + run,
        std::string("bench kernels --n 100 --repeats 1 --filter axpy --no-torch --json")}) {
    const Outcome outcome = laconic_on_full_disk(command);
    EXPECT_EQ(outcome.code, 1) << command << '\n' << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "laconic: cannot write all of the output to stdout: "))
        << command << '\n'
        << outcome.text;
  }
  expect_one_line_error(laconic_on_full_disk("methods --json"), 1, "is the disk full?");
  for (const char* command : {"info", "methods", "problems", "data list", "reproduce --list"}) {
    const Outcome outcome = laconic(std::string(command) + " --json /dev/full");
    EXPECT_EQ(outcome.code, 1) << command;
    EXPECT_TRUE(contains(outcome.text, "laconic: cannot write /dev/full: No space left on device")) << outcome.text;
  }
}

// A link in place of a method's record, which the disk has no room for.
TEST_F(Files, OfMethodsThatRanAreShownIfTheDiskIsFullBeforeTheOthers) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const std::string compare =
      "compare --methods sgd,topk,def --problem noisy-quadratic --set dimension=4 --steps 3 --workers 2 --overwrite "
      "--out '" +
      file("runs") + "' --json '" + file("rows.json") + "'";
  ASSERT_EQ(laconic(compare).code, 0);
  fs::remove(file("runs/topk/metrics.jsonl"));
  fs::create_symlink("/dev/full", file("runs/topk/metrics.jsonl"));
  const Outcome outcome = laconic(compare);
  EXPECT_EQ(outcome.code, 1) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "METHOD")) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "\nsgd ")) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "topk failed: cannot write " + file("runs/topk/metrics.jsonl"))) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "laconic: cannot write " + file("runs/topk/metrics.jsonl"))) << outcome.text;
  const auto rows = json("rows.json");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_TRUE(rows[0].at("loss").is_number());
  EXPECT_TRUE(rows[1].contains("error"));
}

TEST_F(Files, CannotSteerTheTerminal) {
  std::ofstream(file("run.toml")) << "\"st\\u001b[31meps\" = 3\n";
  expect_one_line_error(laconic("train --config '" + file("run.toml") + "'"), 2, "a run has no st\\x1b[31meps");
  fs::create_directories(file("run"));
  std::ofstream(file("run/config.json")) << "{\"method\": {\"name\": \"\\u001b]0;title\\u0007\"}}";
  std::ofstream(file("run/metrics.jsonl")) << "";
  const Outcome outcome = laconic("report '" + file("run") + "' --out '" + file("page.html") + "'");
  if (contains(outcome.text, "built without the report")) GTEST_SKIP() << "built without the report's charts";
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "\\x1b]0;title\\x07 (")) << outcome.text;
  EXPECT_FALSE(contains(outcome.text, "\x1b")) << outcome.text;
}

TEST_F(Files, ThatAreNestedTooDeepAreToldInALine) {
  fs::create_directories(file("run"));
  const std::string deep = "{\"method\": {\"name\": " + std::string(100'000, '[');
  std::ofstream(file("run/config.json")) << deep;
  std::ofstream(file("run.toml")) << "steps = " << std::string(100'000, '[');
  const std::string limit = "nested more than 64 deep";
  const Outcome outcome = laconic("report '" + file("run") + "' --out '" + file("page.html") + "'");
  if (contains(outcome.text, "built without the report")) GTEST_SKIP() << "built without the report's charts";
  expect_one_line_error(outcome, 2, limit);
  expect_one_line_error(laconic("train --config '" + file("run.toml") + "'"), 2, limit);
  expect_one_line_error(laconic("train --config '" + file("run/config.json") + "'"), 2, limit);
  expect_one_line_error(laconic("reproduce --deep --results '" + file("run/config.json") + "'"), 2, limit);
}

TEST_F(Files, JsonIntoStdoutFollowsTheText) {
  ASSERT_EQ(laconic("methods sgd --json /dev/stdout > '" + file("stdout.txt") + "'").code, 0);
  const std::string text = text_of_file(file("stdout.txt"));
  const std::size_t begin = text.find("\n[");
  ASSERT_NE(begin, std::string::npos) << text;
  EXPECT_TRUE(text.starts_with("sgd")) << text;
  EXPECT_EQ(nlohmann::json::parse(text.substr(begin)).at(0).at("name"), "sgd");
}

}  // namespace
}  // namespace laconic::test
