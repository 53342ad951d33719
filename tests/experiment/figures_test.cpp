// What a method cost the rank that sends most.

#include "experiment/figures.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace laconic {
namespace {

/// Three ranks, of which the last made more steps and sent the most in all, and the first has the most a step.
RunResult uneven() {
  RunResult result;
  result.sent_by_rank = {1000, 800, 1200};
  result.payload_by_rank = {500, 100, 600};
  result.messages_by_rank = {20, 20, 30};
  result.steps_by_rank = {5, 5, 15};
  result.steps = 5;
  result.step_seconds = 10.0;
  result.gradient_seconds = 2.0;
  result.select_seconds = 1.0;
  result.traffic.encode_seconds = 0.5;
  result.traffic.decode_seconds = 0.5;
  result.traffic.exchange_seconds = 3.0;
  return result;
}

TEST(Figures, AreTheLargestOverRanks) {
  const RankFigures figures = rank_figures(uneven());
  EXPECT_EQ(figures.total_sent_bytes, 1200U);
  EXPECT_DOUBLE_EQ(figures.sent_bytes_per_step, 200.0);
  EXPECT_DOUBLE_EQ(figures.sent_messages_per_step, 4.0);
  EXPECT_DOUBLE_EQ(figures.payload_bytes_per_step, 100.0);
  EXPECT_DOUBLE_EQ(figures.step_seconds, 2.0);
}

// In an asynchronous run the others may have made all steps before one rank made its first.
TEST(Figures, LeaveOutARankThatMadeNoStep) {
  RunResult result = uneven();
  result.steps_by_rank = {0, 5, 15};
  result.steps = 0;
  result.step_seconds = 0.0;
  const RankFigures figures = rank_figures(result);
  EXPECT_EQ(figures.total_sent_bytes, 1200U);
  EXPECT_DOUBLE_EQ(figures.sent_bytes_per_step, 160.0);
  EXPECT_DOUBLE_EQ(figures.sent_messages_per_step, 4.0);
  EXPECT_DOUBLE_EQ(figures.payload_bytes_per_step, 40.0);
}

TEST(Figures, ComputationIsTheStepWithoutItsWaiting) {
  RunResult result = uneven();
  EXPECT_DOUBLE_EQ(rank_figures(result).compute_seconds, 7.0 / 5.0);
  result.traffic.exchange_seconds = 30.0;  // several at the same time
  EXPECT_DOUBLE_EQ(rank_figures(result).compute_seconds, 4.0 / 5.0);
  result.gradient_seconds = 20.0;  // never longer than the step
  EXPECT_DOUBLE_EQ(rank_figures(result).compute_seconds, 2.0);
}

TEST(Figures, OfARunWithoutStepsAreZero) {
  RunResult result;
  result.sent_by_rank = result.payload_by_rank = result.messages_by_rank = {0, 0};
  result.steps_by_rank = {0, 0};
  const RankFigures figures = rank_figures(result);
  EXPECT_EQ(figures.sent_bytes_per_step, 0.0);
  EXPECT_EQ(figures.step_seconds, 0.0);
  EXPECT_EQ(rank_figures({}).total_sent_bytes, 0U);
}

TEST(Figures, OfARealRunAddUp) {
  RunConfig config = default_config("logistic-regression");
  config.method = "mgrawa";
  config.options.period = 4.0;
  config.workers = 3;
  config.steps = 12;
  const RunResult result = run_threads(config).front();
  const RankFigures figures = rank_figures(result);
  EXPECT_EQ(figures.total_sent_bytes, *std::max_element(result.sent_by_rank.begin(), result.sent_by_rank.end()));
  EXPECT_DOUBLE_EQ(figures.sent_bytes_per_step, static_cast<double>(figures.total_sent_bytes) / 12.0);
  EXPECT_GT(figures.sent_messages_per_step, 0.0);
  EXPECT_LE(figures.compute_seconds, figures.step_seconds);
}

}  // namespace
}  // namespace laconic
