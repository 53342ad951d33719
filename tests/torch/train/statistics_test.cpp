// Batch norm's statistics in a run: averaged or estimated anew where a point is tested, and kept in checkpoints.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "laconic/threads.h"
#include "support/temporary_folder.h"
#include "torch/train/network_learner.h"
#include "torch/train/task_workload.h"

namespace laconic {
namespace {

constexpr std::uint32_t kBatches = 20;  // that a worker estimates them from

/// An epoch has five steps of a worker.
RunConfig small_run(const std::string& method) {
  RunConfig config = default_task_config("digits", method);
  config.task.model = "resnet20";
  config.task.batch = 4;
  config.task.train_samples = 40;
  config.task.test_samples = 12;
  config.workers = 2;
  config.steps = 8;
  config.eval_interval = 0;
  if (method == "mgrawa") config.options.period = 3;
  return config;
}

/// body(learner, communicator) on both ranks, with learners that have made two gradients each.
template <class Body>
void with_learners(const RunConfig& config, Body&& body) {
  const auto workload = task_workload(config, "");
  run_ranks(config.workers, [&](Communicator& communicator) {
    const auto learner = workload->make_learner(config, communicator.rank());
    auto& network = dynamic_cast<NetworkLearner&>(*learner);
    std::vector<float> model(network.network().size()), gradient(model.size());
    network.start(model);
    for (std::uint32_t step = 0; step < 2; ++step) network.gradient(step, model, gradient, {});
    body(network, View<float>(model), communicator);
  });
}

std::vector<float> copy_of(View<const float> values) { return {values.begin(), values.end()}; }

class OneModel : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Methods, OneModel, testing::Values("sgd", "def"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(OneModel, IsTestedWithTheMeanOfTheWorkers) {
  std::vector<std::vector<float>> own(2), settled(2);
  with_learners(small_run(GetParam()), [&](NetworkLearner& learner, View<float> point, Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    own[rank] = copy_of(learner.network().buffers());
    settled[rank] = learner.statistics_at(point, &communicator);
    EXPECT_EQ(copy_of(learner.network().buffers()), own[rank]) << "training goes on with its own";
  });
  ASSERT_FALSE(own[0].empty());
  EXPECT_NE(own[0], own[1]) << "workers see other samples";
  EXPECT_EQ(settled[0], settled[1]);
  for (std::size_t i = 0; i < own[0].size(); ++i) ASSERT_EQ(settled[0][i], (own[0][i] + own[1][i]) / 2) << i;
}

/// The mean over a worker's first batches of what each of them has by itself.
std::vector<double> estimate(NetworkLearner& learner, const Sampler& sampler, int worker) {
  nets::Network& network = learner.network().network();
  const View<float> statistics = learner.network().buffers();
  std::vector<double> mean(statistics.size());
  network.train();
  network.set_norm_momentum(1.0);
  for (std::uint32_t step = 0; step < kBatches; ++step) {
    std::vector<std::uint32_t> samples;
    std::uint32_t epoch = 0;
    sampler.batch(worker, step, samples, epoch);
    learner.loss_of(samples, epoch);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += statistics[i] / static_cast<double>(kBatches);
  }
  network.set_norm_momentum(0.1);
  return mean;
}

TEST(ModelsThatDiffer, AreTestedWithNewEstimates) {
  const RunConfig config = small_run("mgrawa");
  std::vector<std::vector<float>> settled(2);
  std::vector<std::vector<double>> expected(2);
  with_learners(config, [&](NetworkLearner& learner, View<float> point, Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const View<float> statistics = learner.network().buffers();
    std::fill(statistics.begin(), statistics.end(), 1e6F);  // nothing of the past counts
    settled[rank] = learner.statistics_at(point, &communicator);
    EXPECT_TRUE(std::all_of(statistics.begin(), statistics.end(), [](float value) { return value == 1e6F; }))
        << "training goes on with its own";
    const Sampler sampler(learner.task().train_labels(), config.workers, {.seed = config.seed, .batch = 4});
    expected[rank] = estimate(learner, sampler, communicator.rank());
  });
  EXPECT_EQ(settled[0], settled[1]);
  for (std::size_t i = 0; i < settled[0].size(); ++i) {
    const double mean = (expected[0][i] + expected[1][i]) / 2;
    ASSERT_NEAR(settled[0][i], mean, 1e-4 * (1.0 + std::abs(mean))) << i;
  }
}

TEST(SharedBatch, LeavesStatisticsAlone) {
  with_learners(small_run("mgrawa"), [](NetworkLearner& learner, View<float> point, Communicator&) {
    const auto before = copy_of(learner.network().buffers());
    std::vector<float> gradient(point.size());
    learner.shared_gradient(0, point, gradient);
    EXPECT_EQ(copy_of(learner.network().buffers()), before);
    EXPECT_TRUE(std::any_of(gradient.begin(), gradient.end(), [](float value) { return value != 0.0F; }));
  });
}

class Resumed : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Methods, Resumed, testing::Values("sgd", "def", "mgrawa"),
                         [](const auto& test) { return std::string(test.param); });

// The checkpoint lies inside an epoch, and between two rounds.
TEST_P(Resumed, EndsWithTheSameBits) {
  const test::TemporaryFolder own;
  const std::string& folder = own.path();
  RunConfig config = small_run(GetParam());
  config.checkpoint_interval = 4;
  const auto workload = task_workload(config, "");
  const auto straight = run_threads(config, *workload, nullptr, {.folder = folder});
  const auto found = find_checkpoints(folder);
  ASSERT_EQ(found.size(), 1U);
  const auto resumed = run_threads(config, *workload, nullptr, {.folder = folder + "/again", .resume = found.front()});
  for (std::size_t rank = 0; rank < straight.size(); ++rank) {
    EXPECT_EQ(resumed[rank].model, straight[rank].model);
    EXPECT_EQ(resumed[rank].worker_model, straight[rank].worker_model);
    EXPECT_EQ(resumed[rank].loss, straight[rank].loss) << "which the statistics decide";
  }
}

}  // namespace
}  // namespace laconic
