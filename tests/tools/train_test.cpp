// laconic methods, problems, train and compare as a user calls them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>
#include <sstream>

#include "support/text_of_file.h"
#include "tools/program.h"

namespace laconic::test {
namespace {

const std::string kSmall = "--problem logistic-regression --set points=30 --set dimension=20 --workers 2 --steps 8 ";

/// How a table's line of that name begins.
std::string line_of(const std::string& name) { return std::string("\n").append(name).append(" "); }

/// With the lines in which the last column goes on put behind the lines before them.
std::string unwrapped(const std::string& text) { return std::regex_replace(text, std::regex("\n {8,}"), " "); }

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST(Methods, AreListed) {
  const Outcome json = laconic("methods --json");
  ASSERT_EQ(json.code, 0) << json.text;
  Outcome table = laconic("methods");
  ASSERT_EQ(table.code, 0);
  EXPECT_LE(longest_line(table.text), 120U) << table.text;
  for (const char* column : {"KIND", "SCOPE", "SUITS", "MEMORY"}) {
    EXPECT_TRUE(contains(table.text, std::string(" ") + column + " ")) << table.text;
    EXPECT_TRUE(contains(table.text, std::string("\n") + column)) << column << " is not explained\n" << table.text;
  }
  table.text = unwrapped(table.text);
  const auto rows = nlohmann::json::parse(json.text);
  EXPECT_GE(rows.size(), 6U);
  for (const auto& row : rows) {
    EXPECT_TRUE(contains(table.text, line_of(row.at("name")))) << row;
    EXPECT_TRUE(contains(table.text, row.at("paper").get<std::string>())) << row;
    EXPECT_TRUE(row.at("face") == "gradient" || row.at("face") == "model");
    EXPECT_TRUE(row.at("memory_bytes").is_number());
    EXPECT_GE(row.at("most_memory_bytes"), row.at("memory_bytes"));
    EXPECT_GT(row.at("device_memory_bytes"), row.at("memory_bytes"));
    EXPECT_TRUE(row.at("most_memory_bytes") == row.at("memory_bytes") || row.at("memory_remark") != "") << row;
    EXPECT_TRUE(row.contains("scope") && row.contains("summary"));
    for (const auto& parameter : row.at("parameters")) {
      EXPECT_TRUE(contains(table.text, parameter.at("name").get<std::string>() + " "));
      EXPECT_TRUE(contains(table.text, parameter.at("range").get<std::string>()));
      EXPECT_TRUE(parameter.contains("default") && parameter.contains("help"));
    }
  }
}

TEST(Methods, HaveAPageEach) {
  const auto rows = nlohmann::json::parse(laconic("methods --json").text);
  std::string names;
  for (const auto& row : rows) names += row.at("name").get<std::string>() + " ";
  Outcome pages = laconic("methods " + names);
  ASSERT_EQ(pages.code, 0) << pages.text;
  EXPECT_LE(longest_line(pages.text), 120U) << pages.text;
  pages.text = unwrapped(pages.text);
  for (const auto& row : rows) {
    const std::string name = row.at("name");
    const std::size_t begin = ("\n\n" + pages.text).find("\n\n" + name + "\n");
    ASSERT_NE(begin, std::string::npos) << name << '\n' << pages.text;
    const std::string page =
        pages.text.substr(begin, pages.text.find("\n\n", pages.text.find("PARAMETER", begin)) - begin);
    EXPECT_TRUE(contains(page, "--method " + name)) << page;
    for (const char* key : {"summary", "paper", "memory_remark"}) {
      EXPECT_TRUE(contains(page, row.at(key).get<std::string>())) << page;
    }
    for (const auto& parameter : row.at("parameters")) {
      EXPECT_TRUE(contains(page, line_of(parameter.at("name")))) << page;
      EXPECT_TRUE(contains(page, parameter.at("help").get<std::string>())) << page;
    }
  }
  expect_one_line_error(laconic("methods regtop"), 2, "did you mean regtopk?");
  expect_one_line_error(laconic("methods --json regtop"), 2, "did you mean regtopk?");
}

TEST(Methods, ShowAnExampleThatRuns) {
  for (const char* name : {"regtopk", "mgrawa", "fp16"}) {
    const std::string page = laconic(std::string("methods ") + name).text;
    const std::size_t example = page.find("laconic train ");
    ASSERT_NE(example, std::string::npos) << page;
    const Outcome run =
        laconic(page.substr(example + 8, page.find('\n', example) - example - 8) + " --steps 0 --workers 1");
    EXPECT_EQ(run.code, 0) << page << run.text;
  }
}

TEST(Problems, AreListed) {
  const Outcome json = laconic("problems --json");
  ASSERT_EQ(json.code, 0) << json.text;
  const Outcome table = laconic("problems");
  for (const auto& row : nlohmann::json::parse(json.text)) {
    EXPECT_TRUE(contains(table.text, row.at("name").get<std::string>()));
    for (const auto& setting : row.at("settings")) {
      EXPECT_TRUE(contains(table.text, setting.at("name").get<std::string>()));
    }
  }
}

TEST_F(Files, OfARunAreWholeAndStartItAgain) {
  const std::string run = "train " + kSmall + "--method topk --keep 0.2 --out '" + file("one") + "'";
  const Outcome outcome = laconic(run);
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "step      1  loss")) << outcome.text;
  EXPECT_TRUE(outcome.text.starts_with("topk on logistic-regression, 2 workers, 8 steps, seed 1; written to " +
                                       file("one") + "\n"))
      << outcome.text;
  EXPECT_FALSE(contains(outcome.text, "\r")) << "a pipe is no terminal";
  const auto config = json("one/config.json");
  EXPECT_EQ(config.at("method").at("name"), "topk");
  EXPECT_EQ(config.at("method").at("keep"), 0.2);
  EXPECT_EQ(config.at("problem").at("points"), 30);
  std::ifstream lines(file("one/metrics.jsonl"));
  std::string line;
  nlohmann::json last;
  int count = 0;
  for (; std::getline(lines, line); ++count) last = nlohmann::json::parse(line);
  EXPECT_EQ(count, 8);
  EXPECT_EQ(last.at("loss"), json("one/result.json").at("loss"));
  EXPECT_EQ(last.at("total_sent_bytes"), json("one/result.json").at("total_sent_bytes"));
  const Outcome again = laconic("train --config '" + file("one/config.json") + "' --out '" + file("two") +
                                "' --json '" + file("r") + "'");
  ASSERT_EQ(again.code, 0) << again.text;
  EXPECT_EQ(json("two/config.json"), config);
  EXPECT_EQ(json("two/result.json").at("loss"), json("one/result.json").at("loss"));
  EXPECT_EQ(json("r"), json("two/result.json"));
}

TEST_F(Files, OfTomlGiveWayToFlags) {
  std::ofstream(file("run.toml")) << "problem = \"vincent\"\nsteps = 6\nlearning_rate = 0.02\n[method]\nname = "
                                     "\"localsgd\"\nperiod = 3\n";
  const Outcome outcome =
      laconic("train --config '" + file("run.toml") + "' --steps 9 --momentum 0.5 --out '" + file("out") + "'");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const auto config = json("out/config.json");
  EXPECT_EQ(config.at("run").at("steps"), 9);
  EXPECT_EQ(config.at("run").at("learning_rate"), 0.02);
  EXPECT_EQ(config.at("optimizer").at("momentum"), 0.5);
  EXPECT_EQ(config.at("method").at("period"), 3);
  EXPECT_EQ(json("out/result.json").at("rounds"), 3);
}

// Which file and which line, whatever is wrong with it.
TEST_F(Files, OfTomlAreToldByTheirLine) {
  const auto says = [&](const std::string& text, const std::string& part, const std::string& command = "train") {
    std::ofstream(file("run.toml")) << "problem = \"vincent\"\n" << text;
    expect_one_line_error(laconic(command + " --config '" + file("run.toml") + "'"), 2, file("run.toml") + part);
  };
  says("stepps = 6\n", ", line 2: a run has no stepps; did you mean steps?");
  says("steps = \"some\"\n", ", line 2: steps must be");
  says("\nworkers = 0\n", ", line 3: workers must be in 1..1024, got 0");
  says("[method]\nname = \"topk\"\nkeap = 0.1\n", ", line 4: topk has no parameter keap; did you mean keep?");
  says("[method]\nname = \"topk\"\nkeep = 7\n", ", line 4: topk: keep must be in (0, 1], got 7");
  says("[method]\nname = \"topp\"\n", ", line 3: there is no method topp; did you mean topk?");
  says("[methd]\nkeep = 0.1\n", ", line 2: there is no table [methd]");
  says("[method]\nkeap = 0.1\n", ", line 3: none of the methods has the parameter keap; did you mean keep?",
       "compare --methods topk,sgd");
}

TEST_F(Files, OfCompareHaveTheKeys) {
  const Outcome outcome =
      laconic("compare " + kSmall + "--keep 0.2 --ratio 4 --period 4 --json '" + file("c.json") + "'");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const auto listed = nlohmann::json::parse(laconic("methods --json").text);
  const auto rows = json("c.json");
  ASSERT_EQ(rows.size(), listed.size());
  EXPECT_TRUE(contains(outcome.text, "(1 of " + std::to_string(listed.size()) + "): loss "))
      << "a pipe gets a line a method";
  for (const auto& row : rows) {
    EXPECT_TRUE(contains(outcome.text, line_of(row.at("method"))));
    for (const char* key : {"loss", "distance", "payload_bytes_per_step", "sent_bytes_per_step", "total_sent_bytes",
                            "step_seconds", "rounds"}) {
      EXPECT_TRUE(row.at(key).is_number()) << row;
    }
    EXPECT_TRUE(row.at("accuracy").is_null()) << row;
    if (row.at("method") == "sgd") {
      EXPECT_EQ(row.at("rounds"), 8) << "a gradient method meets in every step";
    }
    if (row.at("method") == "mgrawa") {
      EXPECT_EQ(row.at("rounds"), 2);
    }
    const double total = row.at("total_sent_bytes");
    EXPECT_DOUBLE_EQ(row.at("sent_bytes_per_step").get<double>(), total / 8);
    // 12.5 GB/s and 12.5 MB/s differ by what the bytes take; messages and computation are in both.
    const double bytes = row.at("sent_bytes_per_step");
    const auto& forecast = row.at("forecast_step_seconds");
    EXPECT_NEAR(forecast.at("100 Mbit/s").get<double>() - forecast.at("100 Gbit/s").get<double>(),
                bytes * (1.0 / 12.5e6 - 1.0 / 12.5e9), 1e-12);
    EXPECT_GE(forecast.at("100 Gbit/s").get<double>(), row.at("sent_messages_per_step").get<double>() * 50e-6);
    EXPECT_LE(row.at("compute_seconds"), row.at("step_seconds"));
  }
}

TEST(Compare, GivesVotesTheirOwnLearningRateAndSaysSo) {
  const std::string call = "compare --problem logistic-regression --methods sgd,signsgd,topk,signum --steps 3 ";
  const Outcome outcome = laconic(call);
  EXPECT_TRUE(contains(outcome.text, "learning rate 0.5, but 0.01 for signsgd, signum")) << outcome.text;
  const auto rows = nlohmann::json::parse(laconic(call + "--json 2>/dev/null").text);
  EXPECT_EQ(rows[0].at("learning_rate"), 0.5);
  EXPECT_EQ(rows[1].at("learning_rate"), 0.01);
  EXPECT_TRUE(contains(laconic(call + "--lr 0.2").text, "learning rate 0.2\n")) << "what is given goes to all";
}

TEST_F(Files, OfComparedRunsAreKept) {
  const std::string call =
      "compare " + kSmall + "--methods sgd,topk,mgrawa --period 4 --checkpoint-interval 3 --out '" + file("runs") + "'";
  const Outcome outcome = laconic(call + " --json");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const auto& row : nlohmann::json::parse(outcome.text)) {
    const std::string folder = "runs/" + row.at("method").get<std::string>();
    EXPECT_EQ(json(folder + "/config.json").at("method").at("name"), row.at("method"));
    const auto result = json(folder + "/result.json");
    EXPECT_EQ(result.at("loss"), row.at("loss"));
    EXPECT_EQ(result.at("rounds"), row.at("rounds"));
    const std::vector<std::uint64_t> sent = result.at("sent_bytes_by_rank");
    EXPECT_EQ(*std::max_element(sent.begin(), sent.end()), row.at("total_sent_bytes"));
    std::ifstream lines(file(folder + "/metrics.jsonl"));
    std::string line;
    int evaluated = 0;
    while (std::getline(lines, line)) evaluated += nlohmann::json::parse(line).contains("loss") ? 1 : 0;
    EXPECT_EQ(evaluated, 8) << "a curve";
    EXPECT_TRUE(std::filesystem::exists(file(folder + "/checkpoints/step-0000000006"))) << "as train leaves them";
    const Outcome resumed = laconic("train --resume '" + file(folder) + "' --json");
    ASSERT_EQ(resumed.code, 0) << resumed.text;
    EXPECT_EQ(nlohmann::json::parse(resumed.text).at("loss"), row.at("loss"));
  }
  expect_one_line_error(laconic(call), 1, "--overwrite");
  EXPECT_EQ(laconic(call + " --overwrite").code, 0);
  const Outcome once = laconic("compare " + kSmall + "--methods sgd,sgd --json");
  EXPECT_EQ(nlohmann::json::parse(once.text).size(), 1U) << "named twice, run once";
}

TEST_F(Files, OfARunThatGoesOnCountAllThatItSent) {
  const Outcome whole = laconic("train " + kSmall + "--checkpoint-interval 3 --out '" + file("run") + "'");
  ASSERT_EQ(whole.code, 0) << whole.text;
  const auto last_step = [](const std::string& text) {
    const std::size_t begin = text.find("step      8 ");
    return begin == std::string::npos ? "none in " + text : text.substr(begin, text.find('\n', begin) - begin);
  };
  for (const char* named : {"run", "run/checkpoints", "run/checkpoints/"}) {
    EXPECT_EQ(last_step(laconic("train --resume '" + file(named) + "'").text), last_step(whole.text)) << named;
  }
}

TEST_F(Files, OfAnEarlierRunAreKept) {
  const std::string call = "train " + kSmall + "--out '" + file("run") + "'";
  ASSERT_EQ(laconic(call).code, 0);
  expect_one_line_error(laconic(call + " --seed 2"), 1, "--overwrite");
  EXPECT_EQ(json("run/config.json").at("run").at("seed"), 1);
  const Outcome again = laconic(call + " --seed 2 --overwrite");
  ASSERT_EQ(again.code, 0) << again.text;
  EXPECT_EQ(json("run/config.json").at("run").at("seed"), 2);
}

TEST(Train, GivesJsonAloneOnStdout) {
  for (const char* form : {"--json", "--json -"}) {
    const Outcome outcome = laconic("train " + kSmall + form);
    ASSERT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_EQ(nlohmann::json::parse(outcome.text).at("method"), "sgd");
  }
}

// Rank 0 may start when the others have made all steps; the second run is such a one on most machines.
TEST(Train, TellsNoTimePerStepIfThereWasNoStep) {
  for (const char* call : {"train --problem logistic-regression --steps 0",
                           "train --problem linear-regression --method mgrawa --pace async --steps 20"}) {
    const Outcome outcome = laconic(call);
    ASSERT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_FALSE(contains(outcome.text, " 0.00 us: gradient")) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, " in total by all ranks")) << outcome.text;
  }
  EXPECT_FALSE(contains(laconic("train --problem logistic-regression --steps 0").text, " per step"));
  const auto rows = nlohmann::json::parse(
      laconic("compare --problem logistic-regression --methods sgd --steps 0 --json 2> /dev/null").text);
  EXPECT_TRUE(rows.at(0).at("step_seconds").is_null()) << rows;
}

TEST(Train, OfNoStepsTellsTheStart) {
  const Outcome outcome = laconic("train --problem logistic-regression --steps 0 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_NEAR(nlohmann::json::parse(outcome.text).at("loss").get<double>(), std::log(2.0), 1e-6);
}

TEST(Train, NamesTheRemedyOfANan) {
  const std::string call = "train --problem noisy-quadratic --lr 1e30 --steps 30 --eval-interval 0 --workers 2 ";
  for (const char* method : {"sgd", "topk", "localsgd"}) {
    Outcome outcome = laconic(call + "--method " + method);
    EXPECT_TRUE(outcome.text.starts_with(std::string(method) + " on noisy-quadratic, 2 workers")) << outcome.text;
    outcome.text.erase(0, outcome.text.find('\n') + 1);  // what began
    expect_one_line_error(outcome, 1, "--nonfinite skip");
  }
  const Outcome skipped = laconic(call + "--nonfinite skip");
  EXPECT_EQ(skipped.code, 0) << skipped.text;
  EXPECT_TRUE(contains(skipped.text, "skipped")) << skipped.text;
}

TEST_F(Files, OfCompareLeaveSharedMomentumOutForAdam) {
  const Outcome outcome =
      laconic("compare " + kSmall + "--methods sgd,adam --momentum 0.5 --nesterov true --out '" + file("runs") + "'");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(json("runs/sgd/config.json").at("optimizer").at("momentum"), 0.5);
  EXPECT_EQ(json("runs/adam/config.json").at("optimizer").at("momentum"), 0.0);
  EXPECT_EQ(json("runs/adam/config.json").at("optimizer").at("name"), "adam");
}

TEST_F(Files, OfCompareLeaveASharedAdamOutForVotes) {
  const std::string call = "compare " + kSmall + "--methods sgd,signum --optimizer ";
  const Outcome outcome = laconic(call + "adamw --beta2 0.99 --out '" + file("runs") + "'");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "; optimizer adamw, but sgd for signum\n")) << outcome.text;
  EXPECT_EQ(json("runs/sgd/config.json").at("optimizer").at("name"), "adamw");
  EXPECT_EQ(json("runs/signum/config.json").at("optimizer").at("name"), "sgd");
  EXPECT_EQ(json("runs/signum/config.json").at("optimizer").at("momentum"), 0.0);
  // What is meant for the vote alone is not left out.
  expect_one_line_error(laconic(call + "sgd --set signum.optimizer.name=adamw"), 2, "must be sgd, got adamw");
  expect_one_line_error(laconic("compare " + kSmall + "--methods signum --optimizer newton"), 2, "got newton");
  std::ofstream(file("run.toml")) << "[optimizer]\nname = \"newton\"\n";
  expect_one_line_error(laconic("compare " + kSmall + "--methods signum --config '" + file("run.toml") + "'"), 2,
                        "run.toml, line 2: optimizer must be one of sgd | adam | adamw");
}

TEST_F(Files, OfCompareTellWhoFailed) {
  const Outcome outcome = laconic(
      "compare --problem noisy-quadratic --methods sgd,signsgd --workers 2 --steps 30 --set "
      "sgd.learning_rate=1e30 --lr 0.01 --json '" +
      file("c.json") + "'");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(json("c.json")[0].at("loss").is_null());
  EXPECT_TRUE(contains(json("c.json")[0].at("error"), "NaN"));
  EXPECT_TRUE(contains(json("c.json")[0].at("error"), "--nonfinite skip"));
  EXPECT_TRUE(json("c.json")[1].at("loss").is_number());
  EXPECT_TRUE(contains(outcome.text, "sgd failed: "));
}

TEST(Train, RefusesWithASuggestion) {
  expect_one_line_error(laconic("train --problem vinzent"), 2, "did you mean vincent?");
  expect_one_line_error(laconic("train --method regtop"), 2, "did you mean regtopk?");
  expect_one_line_error(laconic("train --method topk --kep 0.1"), 2, "did you mean --keep?");
  expect_one_line_error(laconic("train --method topk --set kep=0.1"), 2, "did you mean keep?");
  expect_one_line_error(laconic("train --method topk --keep 2"), 2, "(0, 1]");
  expect_one_line_error(laconic("train --method sgd --keep 0.1"), 2, "keep");
  expect_one_line_error(laconic("train topk"), 2, "did you mean --method topk?");
  expect_one_line_error(laconic("train --method adam --momentum 0.5"), 2, "adam takes no momentum");
  expect_one_line_error(laconic("train --method adam --optimizer sgd"), 2, "leave the optimizer out");
  expect_one_line_error(laconic("train --method signum --optimizer adamw"), 2,
                        "the optimizer of signum, a vote, must be sgd, got adamw: ");
  expect_one_line_error(laconic("train --method signum --optimizer adamw"), 2, "leave the optimizer out");
  expect_one_line_error(laconic("train --method sgd,topk"), 2, "laconic compare --methods sgd,topk");
  expect_one_line_error(laconic("train digits"), 2, "did you mean --task digits?");
  expect_one_line_error(laconic("train --task digts"), 2, "did you mean digits?");
  expect_one_line_error(laconic("train --model cnn"), 2, "--model is about networks: add --task");
  expect_one_line_error(laconic("train --task digits --problem vincent"), 2, "name one of them");
  expect_one_line_error(laconic("train vincent"), 2, "did you mean --problem vincent?");
  expect_one_line_error(laconic("compare sgd,topk"), 2, "did you mean --methods sgd,topk?");
  expect_one_line_error(laconic("compare --methods sgd topk"), 2, "does not know topk");
  expect_one_line_error(laconic("compare --methods , --steps 5"), 2, "--methods has a name missing beside a comma, got ,:");
  expect_one_line_error(laconic("compare --methods sgd,,topk"), 2, "a name missing beside a comma, got sgd,,topk:");
  expect_one_line_error(laconic("compare --methods sgd,"), 2, "a name missing beside a comma, got sgd,:");
  expect_one_line_error(laconic("reproduce --deep --run-only --runs sgd,"), 2, "--runs has a name missing beside a comma");
  expect_one_line_error(laconic("train --dimension 10"), 2, "--set dimension=10");
  expect_one_line_error(laconic("train --dimension=10"), 2, "--set dimension=10");
  expect_one_line_error(laconic("train --workers abc"), 2, "1..1024, such as 4, got \"abc\"");
  expect_one_line_error(laconic("train --workers 1025"), 2, "workers must be in 1..1024, got 1025");
  EXPECT_TRUE(contains(laconic("train --help").text, "1..1024: ranks"));
  expect_one_line_error(laconic("train --workers 4 --adversaries 99"), 2, "0..4, the number of workers, got 99");
  expect_one_line_error(laconic("train " + kSmall + "--out /proc/no/folder"), 1, "where you may write");
  expect_one_line_error(laconic("train --steps some"), 2, "steps");
  expect_one_line_error(laconic("train --steps 1 --steps 2"), 2, "--steps is given more than once");
  expect_one_line_error(laconic("train --config no/such.toml"), 2, "no/such.toml");
  expect_one_line_error(laconic("train --problem logistic-toy --workers 3"), 2, "two workers");
  expect_one_line_error(laconic("train " + kSmall + "--json no/such/folder.json"), 1, "folder.json");
  for (const char* command : {"train ", "compare --methods sgd "}) {
    expect_one_line_error(laconic(command + kSmall + "--checkpoint-interval 2"), 2, "without --out");
  }
  expect_one_line_error(laconic("compare --methods sgd,topp"), 2, "did you mean topk?");
  expect_one_line_error(laconic("compare --methods sgd,fp16 --keep 0.1"), 2, "keep");
  expect_one_line_error(laconic("compare --methods sgd --keep 0.1"), 2, "sgd has no parameter keep");
  expect_one_line_error(laconic("train --resume no/such/folder"), 1, "there is no folder no/such/folder");
  expect_one_line_error(laconic("train --resume no/such/checkpoints/step-0000000003"), 1, "there is no folder no/such");
  expect_one_line_error(laconic("compare --methods sgd,fp16 --set keep=0.1"), 2, "keep");
  expect_one_line_error(laconic("compare --methods sgd,topk --set signsgd.ties=plus"), 2, "signsgd");
}

TEST_F(Files, OfARunMakeAReport) {
  expect_one_line_error(laconic("report"), 2, "runs");
  ASSERT_EQ(laconic("train " + kSmall + "--method topk --out '" + file("runs/topk") + "'").code, 0);
  const std::string command = "report '" + file("runs") + "' --out '" + file("page.html") + "'";
#if LACONIC_REPORT
  const Outcome outcome = laconic(command);
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const std::string page = text_of_file(file("page.html"));
  for (const char* part : {"<!DOCTYPE html>", "plotly.js v", "MIT license", "\"label\":\"topk\"", "</html>"}) {
    EXPECT_TRUE(contains(page, part)) << part;
  }
  for (const char* mark : {"{{style}}", "{{data}}", "{{plotly}}", "{{script}}"})
    EXPECT_FALSE(contains(page, mark)) << mark;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2) << "something was left behind";
  expect_one_line_error(laconic("report '" + file("nowhere") + "'"), 2, "nowhere");
  expect_one_line_error(laconic("report '" + file("runs") + "' --out '" + file("no/page.html") + "'"), 1, "page.html");
  std::ofstream(file("runs/topk/metrics.jsonl"), std::ios::app) << "nonsense\n";
  expect_one_line_error(laconic(command), 2, "metrics.jsonl, line 9");
#else
  expect_one_line_error(laconic(command), 1, "plotly");
#endif
}

/// The commands of a page, which are its lines in sh blocks that begin with the program's name.
std::vector<std::string> commands_of(const std::string& page) {
  std::ifstream input(page);
  std::vector<std::string> commands;
  std::string line;
  bool shell_block = false;
  while (std::getline(input, line)) {
    if (line.starts_with("```")) shell_block = line == "```sh";
    if (shell_block && line.starts_with("laconic ")) commands.push_back(line.substr(8));
  }
  return commands;
}

TEST_F(Files, OfThePageOnTwoLevelsRun) {
  const auto commands = commands_of(LACONIC_DOCS "/two-levels.md");
  ASSERT_GE(commands.size(), 2U);
  for (const std::string& command : commands) {
    const Outcome outcome = shell("cd '" + folder_.string() + "' && '" LACONIC_PROGRAM "' " + command);
    EXPECT_EQ(outcome.code, 0) << command << '\n' << outcome.text;
  }
  const auto flat = json("flat/result.json");
  const auto two = json("two/result.json");
  EXPECT_FALSE(flat.contains("total_inside_sent_bytes"));
  EXPECT_GT(two.at("total_inside_sent_bytes").get<std::uint64_t>(), 0U);
  EXPECT_EQ(two.at("inside_sent_bytes_by_rank").size(), 8U);
  // On one level, 4 of the 7 others to which a rank sends are on another host.
  const double leaves = flat.at("total_sent_bytes").get<double>() * 4 / 7;
  EXPECT_LT(two.at("total_sent_bytes").get<double>(), leaves / 2);
}

TEST_F(Files, OfTwoLevelsSayWhatStaysInside) {
  const std::string flags = "train --problem logistic-regression --workers 4 --steps 8 --method topk --within 2 ";
  const Outcome outcome = laconic(flags + "--out '" + file("run") + "'");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "between  ") && contains(outcome.text, "inside   ")) << outcome.text;
  EXPECT_EQ(json("run/config.json").at("run").at("within"), 2);
  EXPECT_TRUE(contains(text_of_file(file("run/metrics.jsonl")), "\"inside_sent_bytes\":")) << outcome.text;
#if LACONIC_REPORT
  ASSERT_EQ(laconic("report '" + file("run") + "' --out '" + file("page.html") + "'").code, 0);
  EXPECT_TRUE(contains(text_of_file(file("page.html")), "bytes per step inside its host"));
#endif
  expect_one_line_error(laconic("train --method topk --workers 6 --within 4"), 2,
                        "within: ranks per host must divide the number of ranks, 6, got 4: give one of 1, 2, 3, 6");
  expect_one_line_error(laconic("train --method diloco --within 2"), 2, "two levels are for gradient methods");
  expect_one_line_error(laconic("train --within some"), 2, "within must be a number of workers per host");
}

TEST_F(Files, OfThePageOnExperimentsRun) {
  const auto commands = commands_of(LACONIC_DOCS "/experiments.md");
  ASSERT_GE(commands.size(), 8U);
  for (const std::string& command : commands) {
    const Outcome outcome = shell("cd '" + folder_.string() + "' && '" LACONIC_PROGRAM "' " + command);
    EXPECT_EQ(outcome.code, 0) << command << '\n' << outcome.text;
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run1" / "metrics.jsonl"));
}

#if LACONIC_TORCH
TEST_F(Files, OfThePageOfExamplesRun) {
  const auto commands = commands_of(LACONIC_DOCS "/examples.md");
  ASSERT_GE(commands.size(), 3U);
  for (const std::string& command : commands) {
    if (command.starts_with("report") && !LACONIC_REPORT) continue;
    const Outcome outcome = shell("cd '" + folder_.string() + "' && '" LACONIC_PROGRAM "' " + command);
    EXPECT_EQ(outcome.code, 0) << command << '\n' << outcome.text;
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "runs" / "signum" / "metrics.jsonl"));
}

// Perplexity takes the place of the accuracy everywhere, and the trained model writes at the end.
TEST_F(Files, OfALanguageModelHaveItsPerplexity) {
  std::ofstream text(file("text.txt"));
  for (int i = 0; i < 400; ++i) text << i << (i % 10 == 9 ? '\n' : ' ');
  text.close();
  const std::string flags = "--task text --text '" + file("text.txt") + "' --workers 2 --batch 2 --steps 3 ";
  const Outcome outcome = laconic("train " + flags + "--eval-interval 1 --sample 30 --out '" + file("one") + "'");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "adam on text with gpt-small, 2 workers, 3 steps")) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "  perplexity ")) << outcome.text;
  EXPECT_FALSE(contains(outcome.text, "accuracy")) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "The model writes")) << outcome.text;
  const auto result = json("one/result.json");
  EXPECT_NEAR(result.at("perplexity").get<double>(), std::exp(result.at("loss").get<double>()), 1e-9);
  EXPECT_TRUE(result.at("accuracy").is_null());
  EXPECT_EQ(json("one/config.json").at("task").at("text"), file("text.txt"));
  EXPECT_EQ(json("one/config.json").at("run").at("schedule"), "cosine");
  const Outcome again = laconic("train --config '" + file("one/config.json") + "' --sample 0 --out '" + file("two") + "'");
  ASSERT_EQ(again.code, 0) << again.text;
  EXPECT_EQ(json("two/result.json").at("loss"), result.at("loss"));
  EXPECT_FALSE(contains(again.text, "The model writes")) << again.text;
  const Outcome table = laconic("compare " + flags + "--methods adam,signum");
  EXPECT_TRUE(contains(table.text, "PERPLEXITY")) << table.text;
  expect_one_line_error(laconic("train --task digits --text '" + file("text.txt") + "'"), 2, "reads no text file");
  expect_one_line_error(laconic("train --task text --text '" + file("none") + "'"), 2, "there is no text file");
  expect_one_line_error(laconic("train --task text --model cnn --steps 1"), 2, "use gpt or gpt-small");
}
#endif

#if LACONIC_MPI
TEST_F(Files, OfAnMpiRunAreThoseOfThreads) {
  const std::string flags = "--problem logistic-regression --steps 20 --method topk --keep 0.1 --out ";
  const std::string mpirun = "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0 " LACONIC_MPIEXEC
                             " --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 -n ";
  const Outcome processes = shell(mpirun + "3 '" LACONIC_PROGRAM "' train " + flags + "'" + file("mpi") + "'");
  ASSERT_EQ(processes.code, 0) << processes.text;
  const Outcome threads = laconic("train --workers 3 " + flags + "'" + file("threads") + "'");
  ASSERT_EQ(threads.code, 0) << threads.text;
  EXPECT_EQ(json("mpi/config.json"), json("threads/config.json"));
  for (const char* key : {"loss", "distance", "sent_bytes_by_rank", "received_bytes_by_rank"}) {
    EXPECT_EQ(json("mpi/result.json").at(key), json("threads/result.json").at(key)) << key;
  }
  // Two hosts by their names.
  const std::string named = "sh -c 'LACONIC_HOST=box$((OMPI_COMM_WORLD_RANK / 2)) exec \"$@\"' sh '";
  const Outcome hosts = shell(mpirun + "4 " + named + LACONIC_PROGRAM "' train --within host " + flags + "'" +
                              file("hosts") + "'");
  ASSERT_EQ(hosts.code, 0) << hosts.text;
  ASSERT_EQ(laconic("train --workers 4 --within 2 " + flags + "'" + file("pairs") + "'").code, 0);
  for (const char* key : {"loss", "sent_bytes_by_rank", "inside_sent_bytes_by_rank"}) {
    EXPECT_EQ(json("hosts/result.json").at(key), json("pairs/result.json").at(key)) << key;
  }
  const Outcome wrong = shell(mpirun + "3 '" LACONIC_PROGRAM "' train --problem vinzent");
  EXPECT_EQ(wrong.code, 2) << wrong.text;
  const std::size_t first = wrong.text.find("laconic: there is no problem");
  ASSERT_NE(first, std::string::npos) << wrong.text;
  EXPECT_EQ(wrong.text.find("laconic: there is no problem", first + 1), std::string::npos) << "told more than once";
}
#endif

}  // namespace
}  // namespace laconic::test
