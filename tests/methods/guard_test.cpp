// RegTop-k's step guard, three workers, against a float64 model of RegTop-k and of the guard: an undone step leaves the
// model as it was, and the error as if it had counted.

#include <gtest/gtest.h>

#include <cmath>

#include "laconic/threads.h"
#include "methods/sparse_model.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr float kLearningRate = 0.05F;

/// dev = 1e5 at first; a step with ‖step‖² >= dev is undone, else dev = 100·‖step‖².
struct GuardModel {
  std::vector<double> point;
  double largest = 1e5;

  bool step(const std::vector<double>& aggregate) {
    double squares = 0.0;
    for (const double value : aggregate) squares += std::pow(double{kLearningRate} * value, 2);
    if (squares >= largest) return false;
    largest = 100.0 * squares;
    for (std::size_t i = 0; i < point.size(); ++i) point[i] -= double{kLearningRate} * aggregate[i];
    return true;
  }
};

/// Runs steps whose gradients are scaled so; returns which steps counted, after comparing each with the models.
std::vector<bool> run_guarded(Communicator& communicator, const std::vector<float>& scales) {
  Worker worker(method_row("regtopk"), {.keep = 0.5, .step_guard = "on"}, communicator);
  const std::size_t n = worker.model.size();
  std::vector<SparseModel> workers(static_cast<std::size_t>(communicator.size()), {.keep = 0.5, .mu = 4.0});
  const SparseModel& mine = workers[static_cast<std::size_t>(communicator.rank())];
  GuardModel guard{std::vector<double>(n, 0.5)};
  std::vector<bool> counted;
  double scale = 1.0;  // the largest so far, which rounding is measured against
  for (std::uint32_t step = 0; step < scales.size(); ++step) {
    std::vector<std::vector<float>> gradients;
    for (int rank = 0; rank < communicator.size(); ++rank) {
      gradients.push_back(normal_values(n, 100ULL * step + static_cast<std::uint64_t>(rank)));
      for (float& value : gradients.back()) value *= scales[step];
    }
    scale = std::max(scale, static_cast<double>(scales[step]));
    const auto aggregate = sparse_mean(workers, gradients);
    const auto before = worker.model;
    const StepKey key{42, step, static_cast<std::uint32_t>(communicator.rank())};
    worker.method->step({key, kLearningRate}, worker.model, gradients[key.rank]);
    counted.push_back(guard.step(aggregate));
    EXPECT_EQ(worker.model == before, !counted.back()) << "step " << step;
    const State state = worker.method->save();
    EXPECT_NEAR(state.number("largest step"), guard.largest, 1e-5 * guard.largest) << "step " << step;
    std::vector<float> error(n);
    state.part("inner").get("residual", error);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(double{worker.model[i]}, guard.point[i], 1e-5 * scale) << "step " << step << ", " << i;
      EXPECT_NEAR(double{error[i]}, mine.residual[i], 1e-5 * scale) << "step " << step << ", " << i;
    }
    EXPECT_GT(worker.method->residual_norm(), 0.0);
  }
  return counted;
}

TEST(StepGuard, UndoesAStepFarLongerThanTheLastAndKeepsItsError) {
  run_ranks(3, [](Communicator& communicator) {
    // 6 times as long is 36 in squares, below 100; 1000 times is not. The error that the huge gradient left is sent in
    // the steps after it, which are undone too until none is left.
    std::vector<float> scales(50, 1.0F);
    scales[2] = 6.0F;
    scales[4] = 1000.0F;
    scales[30] = 40.0F;
    scales[40] = 5.0F;
    const auto counted = run_guarded(communicator, scales);
    EXPECT_TRUE(counted[0] && counted[1] && counted[2] && counted[3]);
    EXPECT_FALSE(counted[4]);
    EXPECT_FALSE(counted[5]);
    EXPECT_TRUE(counted[29]);
    EXPECT_FALSE(counted[30]);
    EXPECT_TRUE(counted[40] && counted.back());
  });
}

TEST(StepGuard, UndoesAFirstStepOfAHundredThousand) {
  run_ranks(3, [](Communicator& communicator) {
    // Σg² of the aggregate is about 1000·scale², and the learning rate's square is 1/400.
    EXPECT_EQ(run_guarded(communicator, {20})[0], true);
    EXPECT_EQ(run_guarded(communicator, {2000})[0], false);
  });
}

}  // namespace
}  // namespace laconic::test
