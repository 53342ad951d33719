// Networks in the loop: learning, and the same bits whatever runs beside.

#include <gtest/gtest.h>

#include <filesystem>

#include "laconic/error.h"
#include "methods/table.h"
#include "support/method_names.h"
#include "support/support.h"
#include "torch/task_workload.h"

namespace laconic {
namespace {

RunConfig small_run(const std::string& method, const std::string& model = "mlp") {
  RunConfig config = default_task_config("digits", method);
  config.task.model = model;
  config.task.batch = 8;
  config.task.train_samples = 240;
  config.task.test_samples = 100;
  config.workers = 3;
  config.steps = 12;
  config.eval_interval = 0;
  const MethodRow& row = method_row(method);
  for (const Parameter& parameter : row.parameters) {
    if (parameter.name == std::string("period")) config.options.period = 4;
  }
  return config;
}

std::vector<RunResult> run(const RunConfig& config, const CheckpointPlan& plan = {}) {
  return run_threads(config, *task_workload(config, ""), nullptr, plan);
}

class EveryMethod : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Table, EveryMethod, testing::ValuesIn(test::method_names()),
                         [](const auto& info) { return test::test_name(info.param); });

TEST_P(EveryMethod, TrainsTheSameTwiceAndLowersTheLoss) {
  RunConfig config = small_run(GetParam());
  const auto first = run(config);
  const auto again = run(config);
  EXPECT_EQ(first.front().model, again.front().model);
  for (const RunResult& result : first) {
    EXPECT_EQ(result.model, first.front().model);
    EXPECT_EQ(result.accuracy, first.front().accuracy);
  }
  ASSERT_TRUE(first.front().accuracy.has_value());
  config.steps = 0;
  const double before = run(config).front().loss;
  EXPECT_LT(first.front().loss, before);
}

TEST_P(EveryMethod, GivesTheSameBitsWithoutOverlap) {
  RunConfig config = small_run(GetParam());
  const auto overlapped = run(config);
  config.overlap = false;
  EXPECT_EQ(run(config).front().model, overlapped.front().model);
}

TEST(Training, LearnsDigits) {
  RunConfig config = small_run("sgd", "cnn");
  config.task.train_samples = 2000;
  config.task.test_samples = 400;
  config.workers = 2;
  config.steps = 120;
  config.schedule = default_task_schedule(config.steps);
  EXPECT_GT(run(config).front().accuracy.value(), 0.5);
}

}  // namespace
}  // namespace laconic
