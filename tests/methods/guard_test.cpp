// RegTop-k's step guard, three workers, against a float64 model of RegTop-k and of the guard: an undone step leaves the
// model and the optimizer's moments as they were, and the error as if it had counted.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/sparse_model.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr float kLearningRate = 0.05F;

/// SGD with a guard: dev = 1e5 at first; a step with ‖step‖² >= dev is undone, else dev = 100·‖step‖² unless that is 0.
struct GuardModel {
  std::vector<double> point;
  double momentum = 0.0;
  std::vector<double> moments = std::vector<double>(point.size(), 0.0);
  double largest = 1e5;

  bool step(double learning_rate, const std::vector<double>& aggregate) {
    std::vector<double> moved(point.size());
    double squares = 0.0;
    for (std::size_t i = 0; i < point.size(); ++i) {
      moved[i] = momentum * moments[i] + aggregate[i];
      squares += std::pow(learning_rate * moved[i], 2);
    }
    if (squares >= largest) return false;
    if (squares > 0.0) largest = 100.0 * squares;
    moments = moved;
    for (std::size_t i = 0; i < point.size(); ++i) point[i] -= learning_rate * moments[i];
    return true;
  }
};

/// Runs steps whose gradients are scaled so, those of scale zero with a learning rate of zero too; returns which steps
/// counted, after comparing each with the models.
std::vector<bool> run_guarded(Communicator& communicator, const std::vector<float>& scales, double momentum = 0.0) {
  Worker worker(method_row("regtopk"), {.keep = 0.5, .step_guard = "on"}, communicator, {.momentum = momentum});
  const std::size_t n = worker.model.size();
  std::vector<SparseModel> workers(static_cast<std::size_t>(communicator.size()), {.keep = 0.5, .mu = 4.0});
  const SparseModel& mine = workers[static_cast<std::size_t>(communicator.rank())];
  GuardModel guard{std::vector<double>(n, 0.5), momentum};
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
    const float learning_rate = scales[step] == 0.0F ? 0.0F : kLearningRate;
    const StepReport report = worker.method->step({key, learning_rate}, worker.model, gradients[key.rank]);
    counted.push_back(guard.step(static_cast<double>(learning_rate), aggregate));
    EXPECT_EQ(report.undone, !counted.back()) << "step " << step;
    EXPECT_EQ(worker.model == before, !counted.back() || learning_rate == 0.0F) << "step " << step;
    const State state = worker.method->save();
    EXPECT_NEAR(state.number("largest step"), guard.largest, 1e-5 * guard.largest) << "step " << step;
    std::vector<float> error(n);
    state.nested("inner").get("residual", error);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(double{worker.model[i]}, guard.point[i], 1e-5 * scale) << "step " << step << ", " << i;
      EXPECT_NEAR(double{error[i]}, mine.residual[i], 1e-5 * scale) << "step " << step << ", " << i;
    }
    if (momentum == 0.0) continue;
    std::vector<float> moments(n);
    state.nested("optimizer").get("first", moments);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(double{moments[i]}, guard.moments[i], 1e-5 * scale) << "step " << step << ", " << i;
    }
  }
  EXPECT_GT(worker.method->residual_norm(), 0.0);
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

TEST(StepGuard, TakesTheMomentumOfAnUndoneStepBack) {
  run_ranks(3, [](Communicator& communicator) {
    std::vector<float> scales(30, 1.0F);
    scales[3] = 3000.0F;
    scales[20] = 1000.0F;
    const auto counted = run_guarded(communicator, scales, 0.9);
    EXPECT_FALSE(counted[3] || counted[20]);
    EXPECT_TRUE(counted[2] && counted[19]);
  });
}

// A learning rate that begins at zero, and a gradient of zeros: no step may be measured against a length of zero.
TEST(StepGuard, AStepOfLengthZeroIsNoLimit) {
  run_ranks(3, [](Communicator& communicator) {
    for (const std::vector<float>& scales : {std::vector<float>{0, 1, 1, 1}, std::vector<float>{1, 1, 0, 0, 1, 1}}) {
      const auto counted = run_guarded(communicator, scales);
      EXPECT_EQ(std::count(counted.begin(), counted.end(), false), 0);
    }
  });
}

TEST(StepGuard, TakesAdamsMomentsAndCountOfStepsBack) {
  run_ranks(3, [](Communicator& communicator) {
    Worker worker(method_row("regtopk"), {.keep = 0.5, .step_guard = "on"}, communicator, {.name = "adam"});
    const auto step = [&](std::uint32_t number, float learning_rate) {
      auto gradient = pull_gradient(worker.model, communicator.rank(), number);
      const StepKey key{42, number, static_cast<std::uint32_t>(communicator.rank())};
      return worker.method->step({key, learning_rate}, worker.model, gradient);
    };
    for (std::uint32_t number = 0; number < 3; ++number) EXPECT_FALSE(step(number, 0.01F).undone);
    const auto model = worker.model;
    const auto optimizer = worker.method->save().nested("optimizer").to_bytes();
    // Too long, and so long that the model overflows.
    for (const float learning_rate : {1.0F, 3e38F}) {
      EXPECT_TRUE(step(3, learning_rate).undone);
      EXPECT_EQ(worker.model, model);
      EXPECT_EQ(worker.method->save().nested("optimizer").to_bytes(), optimizer);
    }
    EXPECT_FALSE(step(5, 0.01F).undone);
    EXPECT_NE(worker.method->save().nested("optimizer").to_bytes(), optimizer);
  });
}

TEST(StepGuard, RefusesAHostsOptimizer) {
  run_ranks(1, [](Communicator& communicator) {
    Place place({.threads = 1});
    const OptimizerOptions host{.name = "host", .host = [](View<const float>, View<float>) {}};
    const auto text = message_of<InvalidConfig>(
        [&] { make_model_method("regtopk", {.step_guard = "on"}, host, communicator, place); });
    EXPECT_TRUE(contains(text, "step_guard = on needs optimizer sgd or adam, got host")) << text;
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
