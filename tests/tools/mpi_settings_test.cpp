// Processes of one run that were started with different settings: the first that differs is named, and nothing runs.

#include <gtest/gtest.h>

#include "tools/program.h"

namespace laconic::test {
namespace {

namespace fs = std::filesystem;

/// Two ranks under mpirun, each with its own flags.
Outcome ranks(const std::string& rank_0, const std::string& rank_1) {
  const std::string program = "-n 1 '" LACONIC_PROGRAM "' ";
  return shell(
      "OMP_NUM_THREADS=1 '" LACONIC_MPIEXEC "' --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 " +
      program + rank_0 + " : " + program + rank_1);
}

/// One message of the program, whatever mpirun adds.
void expect_refused(const Outcome& outcome, const std::string& part) {
  EXPECT_EQ(outcome.code, 2) << outcome.text;
  const std::string line = "laconic: " + part + ": start all ranks with the same settings\n";
  EXPECT_TRUE(contains(outcome.text, line)) << "missing: " << line << outcome.text;
  EXPECT_EQ(outcome.text.find("laconic: "), outcome.text.rfind("laconic: ")) << outcome.text;
}

struct Setting {
  const char* test;
  const char* flag;
  const char* name;
  const char* usual;
  const char* other;
};

class MpiSetting : public Files, public testing::WithParamInterface<Setting> {};

const Setting kSettings[] = {
    {"Seed", "--seed 2", "run.seed", "1", "2"},
    {"LearningRate", "--lr 0.02", "run.learning_rate", "0.5", "0.02"},
    {"Schedule", "--schedule 2:0.1", "run.schedule", "none", "2:0.1"},
    {"Skew", "--set skew=0.25", "problem.skew", "0", "0.25"},
    {"Batch", "--set batch=5", "problem.batch", "0", "5"},
    {"Adversaries", "--adversaries 1", "run.adversaries", "0", "1"},
    {"Steps", "--steps 5", "run.steps", "3", "5"},
    {"EvalInterval", "--eval-interval 2", "run.eval_interval", "1", "2"},
    {"Nonfinite", "--nonfinite skip", "run.nonfinite", "error", "skip"},
    {"Momentum", "--momentum 0.5", "optimizer.momentum", "0", "0.5"},
    {"Timeout", "--timeout 20", "run.timeout", "60", "20"},
};

INSTANTIATE_TEST_SUITE_P(Some, MpiSetting, testing::ValuesIn(kSettings),
                         [](const auto& test) { return std::string(test.param.test); });

TEST_P(MpiSetting, ThatDiffersIsNamed) {
  const Setting& setting = GetParam();
  const std::string call = "train --problem logistic-regression --set dimension=20 --out '" + file("run") + "' ";
  const std::string steps = contains(setting.flag, "--steps") ? "" : "--steps 3 ";
  const std::string name = setting.name;
  expect_refused(ranks(call + "--steps 3", call + steps + setting.flag),
                 "rank 1 has " + name + " = " + setting.other + ", rank 0 has " + name + " = " + setting.usual);
  EXPECT_FALSE(fs::exists(file("run/config.json"))) << "nothing began";
}

TEST_F(Files, OfAnEarlierRunSurviveRanksThatDiffer) {
  const std::string call = "train --problem noisy-quadratic --steps 3 --workers 2 --out '" + file("run") + "' ";
  ASSERT_EQ(laconic(call).code, 0);
  const auto before = json("run/result.json");
  expect_refused(ranks(call + "--overwrite --seed 2", call + "--overwrite --seed 3"),
                 "rank 1 has run.seed = 3, rank 0 has run.seed = 2");
  ASSERT_TRUE(fs::exists(file("run/result.json")));
  EXPECT_EQ(json("run/result.json"), before);
  EXPECT_EQ(json("run/config.json").at("run").at("seed"), 1);
}

TEST(MpiSettings, OfCompareIncludeTheMethods) {
  const std::string call = "compare --problem noisy-quadratic --steps 3 --methods ";
  expect_refused(ranks(call + "sgd,signsgd", call + "sgd"),
                 "rank 1 has methods = sgd, rank 0 has methods = sgd,signsgd");
}

}  // namespace
}  // namespace laconic::test
