// The loop that runs a method on a problem: against the pages' tables, and its own bookkeeping.

#include "experiment/run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "experiment/derive.h"
#include "laconic/error.h"
#include "methods/table.h"
#include "support/method_names.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::contains;
using test::message_of;

class Curve : public Observer {
 public:
  void on_step(const StepRecord& record) override { records.push_back(record); }
  std::vector<StepRecord> records;
};

RunConfig small_run(const MethodRow& row) {
  RunConfig config = default_config("logistic-regression");
  config.problem_settings = {{"dimension", 30}, {"points", 40}, {"tensors", 3}, {"batch", 10}};
  config.workers = 3;
  config.steps = 20;
  config.learning_rate = 0.1;
  config.method = row.name;
  for (const Parameter& parameter : row.parameters) {
    if (parameter.name == std::string("keep")) config.options.keep = 0.2;
    if (parameter.name == std::string("ratio")) config.options.ratio = 4;
    if (parameter.name == std::string("period")) config.options.period = 4;
  }
  return config;
}

// The table of the RegTop-k page's toy. Top-1's one huge step comes when a hundred small gradients together equal a
// large one: at that very step rounding decides.
TEST(Run, GivesTheToysTable) {
  constexpr double kRounding = -1.0;
  const std::vector<std::uint32_t> times{1, 2, 10, 50, 100, 150};
  struct Line {
    const char* method;
    std::vector<double> losses;
  };
  for (const Line& line : {Line{"sgd", {.2537, .2119, .0880, .0215, .0110, .00736}},
                           Line{"topk", {.3133, .3133, .3133, .3133, kRounding, 0.0}},
                           Line{"regtopk", {.3133, .2043, .0837, .0209, .0108, .00726}}}) {
    RunConfig config = default_config("logistic-toy");
    config.method = line.method;
    if (line.method != std::string("sgd")) config.options.keep = 0.5;
    if (line.method == std::string("regtopk")) config.options.mu = 1.0;
    Curve curve;
    run_threads(config, &curve);
    ASSERT_EQ(curve.records.size(), 150U);
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (line.losses[i] == kRounding) continue;
      EXPECT_NEAR(curve.records[times[i] - 1].loss.value(), line.losses[i], 6e-5) << line.method << ' ' << times[i];
    }
  }
}

class EveryMethod : public testing::TestWithParam<std::string> {
 protected:
  RunConfig config() const { return small_run(method_row(GetParam())); }
};

INSTANTIATE_TEST_SUITE_P(Table, EveryMethod, testing::ValuesIn(test::method_names()),
                         [](const auto& each) { return test::test_name(each.param); });

TEST_P(EveryMethod, CountsWhatItSends) {
  Curve curve;
  const auto results = run_threads(config(), &curve);
  ASSERT_EQ(curve.records.size(), 20U);
  std::uint64_t sent = 0;
  for (const StepRecord& record : curve.records) {
    sent += record.report.traffic.sent_bytes;
    ASSERT_EQ(record.sent_by_rank.size(), 3U);
    EXPECT_EQ(record.sent_by_rank[0], sent);
    EXPECT_TRUE(std::isfinite(record.loss.value()));
    EXPECT_TRUE(std::isfinite(record.residual_norm.value()));
  }
  const RunResult& first = results.front();
  EXPECT_GT(first.total_sent_bytes, 0U);
  EXPECT_EQ(first.total_sent_bytes, first.total_received_bytes);
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    EXPECT_EQ(results[rank].sent_by_rank, first.sent_by_rank);
    EXPECT_EQ(results[rank].traffic.sent_bytes, first.sent_by_rank[rank]);
    EXPECT_EQ(results[rank].model, first.model);
    EXPECT_EQ(results[rank].steps, 20U);
    EXPECT_EQ(results[rank].loss, first.loss);
  }
  EXPECT_EQ(curve.records.back().sent_by_rank, first.sent_by_rank);
  EXPECT_EQ(curve.records.back().loss, first.loss);
}

TEST_P(EveryMethod, DoesNotDependOnWhoIsWatching) {
  RunConfig often = config();
  RunConfig once = config();
  once.eval_interval = 0;
  EXPECT_EQ(run_threads(often).front().model, run_threads(once).front().model);
  once.seed = 2;
  EXPECT_NE(run_threads(often).front().model, run_threads(once).front().model);
}

TEST(Run, TellsTheResidualOfALiftedMethod) {
  Curve curve;
  run_threads(small_run(method_row("topk")), &curve);
  EXPECT_GT(curve.records.back().residual_norm.value(), 0.0);
}

TEST(Run, FollowsItsSchedule) {
  RunConfig config = default_config("noisy-quadratic");
  config.problem_settings = {{"noise", 0}, {"dimension", 1}};
  config.learning_rate = 0.5;
  config.schedule = {{1, 0.5}, {2, 0.0}};
  config.workers = 1;
  config.steps = 4;
  const auto problem = make_problem(config.problem, config.problem_settings, 1, config.seed);
  EXPECT_EQ(run_threads(config).front().model[0], problem->start()[0] * 0.5F * 0.75F);
  EXPECT_EQ(learning_rate_at(config, 0), 0.5);
  EXPECT_EQ(learning_rate_at(config, 1), 0.25);
  EXPECT_EQ(learning_rate_at(config, 3), 0.0);
}

TEST(Run, AdversariesInvertTheirGradients) {
  RunConfig config = default_config("noisy-quadratic");
  config.problem_settings = {{"noise", 0}, {"dimension", 3}};
  config.learning_rate = 0.5;
  config.workers = 4;
  config.steps = 1;
  const auto start = make_problem(config.problem, config.problem_settings, 4, config.seed)->start();
  config.adversaries = 1;  // (3 − 1)/4 of the gradient is left
  EXPECT_EQ(run_threads(config).front().model[1], start[1] * 0.75F);
  config.adversaries = 2;
  EXPECT_EQ(run_threads(config).front().model, start);
}

TEST(Run, StartsWorkersApartOnlyWhereModelsMayDiffer) {
  RunConfig config = default_config("vincent");
  config.method = "localsgd";
  config.steps = 1;
  config.options.period = 8;
  config.learning_rate = 0.0;
  const auto apart = run_threads(config);
  EXPECT_EQ(apart[0].worker_model, (std::vector<float>{0.25F, 0.25F}));
  EXPECT_EQ(apart[3].worker_model, (std::vector<float>{10.0F, 10.0F}));
  config.method = "sgd";
  config.options = {};
  const auto together = run_threads(config);
  EXPECT_EQ(together[0].worker_model, together[3].worker_model);
}

TEST(Run, AsynchronousWorkersShareTheSteps) {
  RunConfig config = small_run(method_row("mgrawa"));
  config.workers = 4;
  config.steps = 25;
  config.options.pace = "async";
  config.compute_seconds = 0.0005;
  config.slowdown = {1, 1, 1, 8};
  const auto results = run_threads(config);
  const auto& steps = results.front().steps_by_rank;
  EXPECT_EQ(std::accumulate(steps.begin(), steps.end(), 0U), 4U * 25U);
  // How many a slow worker makes is up to the machine; that each takes it eight times as long is not.
  EXPECT_GE(results.front().wall_seconds, 0.0005 * 8 * steps[3]);
  EXPECT_TRUE(std::isfinite(results.front().loss));
}

TEST(Run, HandsAMethodWhatTheRunKnows) {
  RunConfig config = small_run(method_row("dqsgd"));
  const auto problem = make_problem(config.problem, config.problem_settings, 3, config.seed);
  EXPECT_FALSE(derived_options(config, *problem).total_steps.has_value()) << "tau needs no end";
  config.options.rule = "convex";
  const MethodOptions derived = derived_options(config, *problem);
  EXPECT_EQ(derived.total_steps, 20.0);
  EXPECT_EQ(derived.step_size, config.learning_rate);
  EXPECT_EQ(derived.smoothness, problem->smoothness());
  EXPECT_EQ(derived.convexity, problem->convexity());
  config.options.total_steps = 7;
  EXPECT_EQ(derived_options(config, *problem).total_steps, 7.0);
  EXPECT_FALSE(derived_options(small_run(method_row("sgd")), *problem).total_steps.has_value());
}

TEST(Run, StopsOrSkipsWhereAGradientIsNotFinite) {
  RunConfig config = default_config("noisy-quadratic");
  config.problem_settings = {{"noise", 0}, {"dimension", 4}};
  config.workers = 2;
  config.learning_rate = 1e30;  // the second gradient or the third overflows
  config.steps = 8;
  const auto told = message_of<InvalidConfig>([&] { run_threads(config); });
  EXPECT_TRUE(contains(told, "step") && contains(told, "w0")) << told;
  config.nonfinite = NonfinitePolicy::skip;
  const auto results = run_threads(config);
  EXPECT_GT(results.front().skipped, 0U);
  EXPECT_EQ(results.front().skipped, results.back().skipped);
}

TEST(Run, RefusesWhatCannotBe) {
  const auto refused = [](auto change) {
    RunConfig config = default_config("vincent");
    change(config);
    return message_of<InvalidConfig>([&] { run_threads(config); });
  };
  EXPECT_TRUE(contains(refused([](RunConfig& c) { c.workers = 0; }), "workers"));
  EXPECT_TRUE(contains(refused([](RunConfig& c) { c.learning_rate = NAN; }), "learning_rate"));
  EXPECT_TRUE(contains(refused([](RunConfig& c) { c.adversaries = 5; }), "adversaries"));
  EXPECT_TRUE(contains(refused([](RunConfig& c) { c.slowdown = {1, 2}; }), "slowdown"));
  EXPECT_TRUE(contains(refused([](RunConfig& c) { c.slowdown = {1, 1, 1, 2}; }), "compute_seconds"));
  EXPECT_TRUE(contains(refused([](RunConfig& c) { c.method = "topp"; }), "topk"));
  EXPECT_TRUE(contains(refused([](RunConfig& c) { c.schedule = {{1, -1.0}}; }), "factor"));
  const auto problem = make_problem("vincent", {}, 3, 1);
  const RunConfig four = default_config("vincent");
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { run_threads(four, *problem); }), "3"));
}

TEST(Run, OfNoStepsReadsOutTheStart) {
  RunConfig config = default_config("linear-regression");
  config.workers = 2;
  config.steps = 0;
  const RunResult result = run_threads(config).front();
  EXPECT_EQ(result.model, std::vector<float>(100, 0.0F));
  EXPECT_EQ(result.total_sent_bytes, 0U);
}

// One worker, plain SGD: a step is the learning rate times the gradient, which clipping scales down to its norm.
TEST(Run, ClipsEachWorkersGradient) {
  RunConfig config = small_run(method_row("sgd"));
  config.workers = 1;
  config.learning_rate = 1.0;
  const auto step_of = [&](double clip) {
    config.clip = clip;
    config.steps = 0;
    const std::vector<float> start = run_threads(config).front().model;
    config.steps = 1;
    std::vector<double> step;
    const std::vector<float> end = run_threads(config).front().model;
    for (std::size_t i = 0; i < start.size(); ++i) step.push_back(static_cast<double>(start[i]) - end[i]);
    return step;
  };
  const auto length = [](const std::vector<double>& step) {
    return std::sqrt(std::inner_product(step.begin(), step.end(), step.begin(), 0.0));
  };
  const auto whole = step_of(0.0);
  const double norm = length(whole);
  EXPECT_EQ(step_of(1.01 * norm), whole) << "short enough";
  const auto clipped = step_of(0.25 * norm);
  EXPECT_NEAR(length(clipped), 0.25 * norm, 1e-6 * norm);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(clipped[i], 0.25 * whole[i], 1e-6 * norm);
}

// What workers remember and send is made of clipped gradients, so that it does not depend on the number of threads.
TEST(Run, ClipsAlikeWithAnyNumberOfThreads) {
  RunConfig config = small_run(method_row("topk"));
  config.clip = 0.01;
  const auto one = run_threads(config).front().model;
  config.threads = 3;
  EXPECT_EQ(run_threads(config).front().model, one);
  config.clip = 0.0;
  EXPECT_NE(run_threads(config).front().model, one);
}

}  // namespace
}  // namespace laconic
