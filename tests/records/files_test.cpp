// What a run leaves on disk can be read, adds up, and starts the same run again.

#include "records/formats.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/whole_file.h"
#include "laconic/error.h"
#include "records/config_file.h"
#include "records/run_record.h"
#include "records/writer.h"
#include "support/support.h"
#include "support/temporary_folder.h"
#include "support/text_of_file.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;

class RunFiles : public test::InTemporaryFolder {};

TEST_F(RunFiles, TomlIsRead) {
  const auto path = write("run.toml",
                          "problem = \"vincent\"\n"
                          "steps = 12\nlearning_rate = 0.5\nschedule = [\"3:0.5\", \"6:0.5\"]\n"
                          "slowdown = [1, 1, 1.5, 2]\ncompute_seconds = 1e-4\n"
                          "[method]\nname = \"mgrawa\"\nperiod = 4\npull = 0.25\n"
                          "[optimizer]\nmomentum = 0.9\nnesterov = true\n");
  const RunConfig config = config_from(read_config_file(path));
  EXPECT_EQ(config.problem, "vincent");
  EXPECT_EQ(config.method, "mgrawa");
  EXPECT_EQ(config.steps, 12U);
  EXPECT_EQ(config.learning_rate, 0.5);
  EXPECT_EQ(config.schedule.size(), 2U);
  EXPECT_EQ(config.slowdown, (std::vector<double>{1, 1, 1.5, 2}));
  EXPECT_EQ(config.options.period, 4.0);
  EXPECT_EQ(config.options.pull, 0.25);
  EXPECT_TRUE(config.optimizer.nesterov);
}

TEST_F(RunFiles, FaultsNameFileAndLine) {
  const auto broken = write("broken.toml", "steps = 3\nseed = = 4\n");
  const auto told = message_of<InvalidConfig>([&] { read_config_file(broken); });
  EXPECT_TRUE(contains(told, "broken.toml, line 2")) << told;
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { read_config_file("no/such.toml"); }), "no/such.toml"));
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { read_config_file("no/such.json"); }), "no/such.json"));
  const auto table = write("table.toml", "[methods]\nname = \"sgd\"\n");
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { read_config_file(table); }), "[methods]"));
  const auto key = write("key.toml", "stepps = 3\n");
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { config_from(read_config_file(key)); }), "did you mean steps?"));
  const auto date = write("date.toml", "steps = 1979-05-27\n");
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { read_config_file(date); }), "steps"));
}

// A value out of its range is found when the whole run is known, and is still told with its place in the file.
TEST_F(RunFiles, RangesNameFileAndLine) {
  struct Case {
    const char* text;
    const char* told;
  };
  for (const Case& each : {Case{"threads = 5000\n", ", line 1: threads must be in 0..1024, got 5000"},
                           Case{"steps = 3\nschedule = \"3:-1\"\n", ", line 2: a schedule's factor must be 0 or more"},
                           Case{"workers = 1\ncompute_seconds = 1\nslowdown = [-2]\n", ", line 3: a slowdown must be in"},
                           Case{"[task]\nname = \"digits\"\nskew = 2\n", ", line 3: skew must be in [0, 1], got 2"}}) {
    const auto path = write("ranges.toml", each.text);
    const auto told = message_of<InvalidConfig>([&] { config_from(read_config_file(path)); });
    EXPECT_TRUE(contains(told, "ranges.toml" + std::string(each.told))) << told;
  }
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// Whatever walks over nested values recurses: a hundred thousand levels would overflow the stack.
TEST_F(RunFiles, WhatIsNestedTooDeepIsRefused) {
  constexpr int kLevels = 100'000;
  const auto told = [&](const std::string& name, const std::string& text) {
    const std::string path = write(name, text);
    return message_of<InvalidConfig>([&] { read_config_file(path); });
  };
  const std::string limit = "nested more than 64 deep, the most that is read";
  EXPECT_TRUE(contains(told("a.json", R"({"run": {"steps": )" + repeated("[", kLevels)),
                       "a.json, offset 80: " + limit));
  EXPECT_TRUE(contains(told("a.toml", "steps = " + repeated("[", kLevels) + repeated("]", kLevels)),
                       "a.toml, offset 72: " + limit));
  EXPECT_TRUE(contains(told("b.toml", "steps = " + repeated("{a=", kLevels)), limit));
  EXPECT_TRUE(contains(told("c.toml", repeated("a.", kLevels) + "a = 1\n"), limit));
  EXPECT_TRUE(contains(told("d.toml", "[method" + repeated(". a", kLevels) + "]\n"), limit));
  EXPECT_TRUE(contains(told("e.toml", "method = {" + repeated("\"a\".", kLevels) + "a = 1}\n"), limit));
  // Texts whose ends are easily missed: what follows them would be taken for text.
  for (const char* text : {R"("""x"""")", R"("""x""""")", "'''x''''", R"("")", "''", R"("\"")", R"('\')"}) {
    const std::string hidden = std::string("model = ") + text + "\n" + repeated("a.", kLevels) + "a = \"\"\n";
    EXPECT_TRUE(contains(told("f.toml", hidden), limit)) << "behind " << text;
  }
}

TEST_F(RunFiles, BracketsAndPointsInTextsAndCommentsAreNoNesting) {
  const std::string brackets = repeated("[{.", 1000);
  for (const char* quote : {"\"", "'", "\"\"\"", "'''"}) {
    const auto path = write("run.toml", "# " + brackets + "\n[method]\nname = \"topk\"\nnumbers = [" +
                                            repeated("1.5, ", 1000) + "]\ntext = " + quote + brackets + quote + "\n");
    EXPECT_EQ(read_config_file(path).size(), 3U) << quote;
  }
  const auto path = write("run.json", R"({"run": {"text": "\")" + brackets + "\"}}");
  EXPECT_EQ(read_config_file(path).front().value, '"' + brackets);
}

// Each joined to a copy of those before it, they would take minutes.
TEST_F(RunFiles, LongListsAreReadInSeconds) {
  const std::string list = "[" + repeated("1,", 1'000'000) + "1]";
  for (const auto& path : {write("long.json", "{\"run\": {\"slowdown\": " + list + "}}"),
                           write("long.toml", "slowdown = " + list + "\n")}) {
    const auto begun = std::chrono::steady_clock::now();
    const auto entries = read_config_file(path);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    ASSERT_EQ(entries.size(), 1U);
    EXPECT_EQ(entries.front().value.size(), 2'000'001U);
    EXPECT_LT(taken.count(), 30.0) << path;
  }
}

// As TOML's: keys at the top are the run's, and a section may be just its name.
TEST_F(RunFiles, FlatJsonIsRead) {
  const auto path = write("run.json",
                          R"({"problem": "vincent", "method": "topk", "optimizer": "sgd", "steps": 12,
                              "schedule": ["3:0.5", "6:0.5"], "nonfinite": "skip"})");
  const RunConfig config = config_from(read_config_file(path));
  EXPECT_EQ(config.problem, "vincent");
  EXPECT_EQ(config.method, "topk");
  EXPECT_EQ(config.steps, 12U);
  EXPECT_EQ(config.schedule.size(), 2U);
  EXPECT_EQ(config.nonfinite, NonfinitePolicy::skip);
  const auto refused = [&](const char* text) {
    const auto file = write("wrong.json", text);
    return message_of<InvalidConfig>([&] { config_from(read_config_file(file)); });
  };
  EXPECT_TRUE(contains(refused(R"({"stepps": 12})"), "wrong.json: a run has no stepps; did you mean steps?"));
  EXPECT_TRUE(contains(refused(R"({"steps": null})"), "steps must be a number"));
  EXPECT_TRUE(contains(refused(R"({"method": "topp"})"), "did you mean topk?"));
  EXPECT_TRUE(contains(refused(R"({"methd": {"keep": 0.1}})"), "section methd"));
}

TEST_F(RunFiles, EmptyNamesAreNoDefaults) {
  for (const char* section : {"problem", "task", "method", "optimizer"}) {
    for (const std::string& path : {write("run.json", std::string("{\"") + section + "\": {\"name\": \"\"}}"),
                                    write("run.toml", std::string(section) + " = \"\"\n")}) {
      const auto told = message_of<InvalidConfig>([&] { config_from(read_config_file(path)); });
      EXPECT_TRUE(told.starts_with(path) &&
                  contains(told, std::string("the name of the ") + section + " must not be empty"))
          << told;
    }
  }
}

TEST_F(RunFiles, NoScheduleAndNoSlowdownHaveAWord) {
  const std::vector<ConfigEntry> entries{{"task", "name", "digits"}, {"run", "schedule", "none"},
                                         {"run", "slowdown", "none"}};
  EXPECT_TRUE(config_from(entries).schedule.empty());
  EXPECT_TRUE(config_from(entries).slowdown.empty());
}

// Many programs write files of that name.
TEST_F(RunFiles, ConfigOfOursIsTold) {
  EXPECT_TRUE(is_config_of_run(write("config.json", config_json(default_config("vincent")))));
  EXPECT_FALSE(is_config_of_run((folder_ / "none").string()));
  for (const char* text : {"", "{", "[]", "{}", R"({"method": {"name": "sgd"}})",
                           R"({"laconic": "1.0", "method": "x"})", R"({"laconic": 1, "method": {}})"}) {
    EXPECT_FALSE(is_config_of_run(write("config.json", text))) << text;
  }
  EXPECT_FALSE(is_config_of_run(write("config.json", std::string(1000000, '['))));
  EXPECT_TRUE(is_config_of_run(write("config.json", R"({"laconic": "1.0", "method": {"name": "sgd"}, "deep": )" +
                                                        std::string(100000, '[') + std::string(100000, ']') + "}")));
}

TEST_F(RunFiles, ConfigStartsTheSameRunAgain) {
  RunConfig config = default_config("noisy-quadratic");
  config.problem_settings = {{"dimension", 40}, {"noise", 0.1}};
  config.method = "regtopk";
  config.options.keep = 0.3;
  config.options.denominator = "current";
  config.workers = 2;
  config.steps = 10;
  config.seed = (std::uint64_t{1} << 63) + 1;
  config.optimizer.momentum = 0.9;
  config.schedule = {{5, 0.1}};
  const auto path = write("config.json", config_json(config));
  const RunConfig again = config_from(read_config_file(path));
  EXPECT_EQ(config_json(again), config_json(config));
  EXPECT_EQ(run_threads(again).front().model, run_threads(config).front().model);
}

TEST_F(RunFiles, MetricsThatGoOnEndAtTheFirstLineThatIsNone) {
  const std::string path = (folder_ / "metrics.jsonl").string();
  for (const char* nonsense : {"", "[2]", "{}", "{\"step\": \"two\"}", "{\"step\": -2}", "{\"step\": 9}", "{\"st"}) {
    std::ofstream(path) << "{\"step\": 1}\n" << nonsense << "\n{\"step\": 3}\n";
    RunRecord(folder_.string()).open_metrics(5);
    EXPECT_EQ(test::text_of_file(path), "{\"step\": 1}\n") << nonsense;
  }
}

TEST_F(RunFiles, ShowTheStepsThatTheGuardTookBack) {
  RunConfig config = default_config("noisy-quadratic");
  config.method = "regtopk";
  config.options.step_guard = "on";
  config.problem_settings = {{"noise", 0}, {"dimension", 3}};
  config.learning_rate = 1e6;  // two steps far longer than the guard's first limit
  config.schedule = {{2, 1e-7}};
  config.workers = 2;
  config.steps = 5;
  const std::string path = (folder_ / "metrics.jsonl").string();
  RunResult result;
  {
    RunFolder run(folder_.string(), config, Earlier::kept);
    result = run_threads(config, &run).front();
  }
  EXPECT_EQ(nlohmann::json::parse(result_json(config, result)).at("undone"), 2);
  std::ifstream input(path);
  for (std::string line; std::getline(input, line);) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json.at("undone"), json.at("step") <= 2) << line;
  }
}

TEST_F(RunFiles, MetricsAreALineAStepAndAddUp) {
  RunConfig config = default_config("linear-regression");
  config.problem_settings = {{"dimension", 30}, {"points", 40}};
  config.method = "topk";
  config.options.keep = 0.1;
  config.workers = 3;
  config.steps = 12;
  config.eval_interval = 5;
  const std::string path = (folder_ / "metrics.jsonl").string();
  RunResult result;
  {
    RunFolder run(folder_.string(), config, Earlier::kept);
    result = run_threads(config, &run).front();
  }
  std::ifstream input(path);
  std::string line;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::vector<nlohmann::json> lines;
  while (std::getline(input, line)) {
    lines.push_back(nlohmann::json::parse(line));
    const auto& json = lines.back();
    EXPECT_EQ(json.at("step"), lines.size());
    for (const char* key : {"batch_loss", "payload_bytes", "bits", "rounds", "gradient_seconds", "select_seconds",
                            "encode_seconds", "exchange_seconds", "decode_seconds", "step_seconds"}) {
      EXPECT_TRUE(json.at(key).is_number()) << key;
    }
    EXPECT_EQ(json.at("skipped"), false);
    EXPECT_EQ(json.at("undone"), false);
    sent += json.at("sent_bytes").get<std::uint64_t>();
    received += json.at("received_bytes").get<std::uint64_t>();
    const bool evaluated = lines.size() % 5 == 0 || lines.size() == 12;
    for (const char* key : {"loss", "distance", "residual_norm", "total_sent_bytes"}) {
      EXPECT_EQ(json.contains(key), evaluated) << key << ' ' << lines.size();
    }
    if (evaluated) {
      const std::vector<std::uint64_t> by_rank = json.at("sent_bytes_by_rank");
      EXPECT_EQ(by_rank[0], sent);
      EXPECT_EQ(by_rank[0] + by_rank[1] + by_rank[2], json.at("total_sent_bytes").get<std::uint64_t>());
      EXPECT_EQ(json.at("received_bytes_by_rank")[0], received);
      EXPECT_EQ(json.at("total_sent_bytes"), json.at("total_received_bytes"));
    }
  }
  ASSERT_EQ(lines.size(), 12U);
  const auto summary = nlohmann::json::parse(result_json(config, result));
  EXPECT_EQ(summary.at("total_sent_bytes"), lines.back().at("total_sent_bytes"));
  EXPECT_EQ(summary.at("loss"), lines.back().at("loss"));
  EXPECT_EQ(summary.at("distance"), lines.back().at("distance"));
  std::ofstream(folder_ / "taken") << "a file";
  EXPECT_TRUE(contains(message_of<FileError>([&] { RunRecord((folder_ / "taken" / "such").string()); }), "such"));
}

}  // namespace
}  // namespace laconic
