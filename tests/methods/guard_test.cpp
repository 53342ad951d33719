// RegTop-k's step guard against a float64 model of it. Aggregates come from a second method without a guard, which sees
// the same gradients: that both keep the same error shows that an undone step leaves the error alone.

#include <gtest/gtest.h>

#include <cmath>

#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr float kLearningRate = 0.05F;

/// dev = 1e5 at first; a step with ‖step‖² >= dev is undone, else dev = 100·‖step‖².
struct GuardModel {
  std::vector<double> point;
  double largest = 1e5;

  bool step(const std::vector<float>& aggregate) {
    double squares = 0.0;
    for (const float value : aggregate) squares += std::pow(double{kLearningRate} * double{value}, 2);
    if (squares >= largest) return false;
    largest = 100.0 * squares;
    for (std::size_t i = 0; i < point.size(); ++i) point[i] -= double{kLearningRate} * double{aggregate[i]};
    return true;
  }
};

/// Runs steps whose gradients are scaled so; returns which steps counted, after comparing each with the model.
std::vector<bool> run_guarded(Communicator& communicator, const std::vector<float>& scales) {
  const MethodOptions plain{.keep = 0.5};
  const MethodOptions guarded{.keep = 0.5, .step_guard = "on"};
  Worker worker(method_row("regtopk"), guarded, communicator);
  const auto twin = make_method("regtopk", plain, communicator, worker.place);
  twin->register_tensors(small_model());
  const std::size_t n = worker.model.size();
  GuardModel model{std::vector<double>(n, 0.5)};
  std::vector<bool> counted;
  for (std::uint32_t step = 0; step < scales.size(); ++step) {
    auto gradient = normal_values(n, 100ULL * step + static_cast<std::uint64_t>(communicator.rank()));
    for (float& value : gradient) value *= scales[step];
    auto aggregate = gradient;
    const StepKey key{42, step, static_cast<std::uint32_t>(communicator.rank())};
    const auto before = worker.model;
    twin->reduce(key, aggregate);
    worker.method->step({key, kLearningRate}, worker.model, gradient);
    counted.push_back(model.step(aggregate));
    EXPECT_EQ(worker.model == before, !counted.back()) << "step " << step;
    const State state = worker.method->save();
    EXPECT_NEAR(state.number("largest step"), model.largest, 1e-3 * model.largest) << "step " << step;
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(double{worker.model[i]}, model.point[i], 1e-4 * (1.0 + std::abs(model.point[i]))) << "step " << step;
    }
    std::vector<float> error(n);
    std::vector<float> twins(n);
    state.part("inner").get("residual", error);
    twin->save().get("residual", twins);
    EXPECT_EQ(error, twins) << "step " << step;
    EXPECT_GT(worker.method->residual_norm(), 0.0);
  }
  return counted;
}

TEST(StepGuard, UndoesAStepFarLongerThanTheLastAndKeepsItsError) {
  run_ranks(2, [](Communicator& communicator) {
    // 6 times as long is 36 in squares, below 100; 1000 times is not. The error that the huge gradient left is sent in
    // the steps after it, which are undone too until none is left.
    const auto counted = run_guarded(communicator, {1, 1, 6, 1, 1000, 1, 1, 1, 1, 1, 1, 1});
    EXPECT_TRUE(counted[0] && counted[1] && counted[2] && counted[3]);
    EXPECT_FALSE(counted[4]);
    EXPECT_FALSE(counted[5]);
    EXPECT_TRUE(counted.back());
  });
}

TEST(StepGuard, UndoesAFirstStepOfAHundredThousand) {
  run_ranks(2, [](Communicator& communicator) {
    // Σg² of the aggregate is about 1000·scale², and the learning rate's square is 1/400.
    EXPECT_EQ(run_guarded(communicator, {20})[0], true);
    EXPECT_EQ(run_guarded(communicator, {2000})[0], false);
  });
}

}  // namespace
}  // namespace laconic::test
