// Gradient methods lifted with an optimizer, three workers, 50 steps, against float64 models of the aggregate and of
// the optimizer that follows it: momentum, Nesterov and weight decay act after aggregation.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "laconic/threads.h"
#include "methods/def_model.h"
#include "methods/optimizer_model.h"
#include "methods/sparse_model.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr int kWorkers = 3;
constexpr std::uint32_t kSteps = 50;
constexpr double kRounding = 1e-5;  ///< of float32 in gradients and models of up to 5, over 50 steps

/// Warm-up, a plateau and a drop.
float learning_rate(std::uint32_t step) {
  return step < 5 ? 0.01F * static_cast<float>(step + 1) : step < 30 ? 0.05F : 0.005F;
}

using Gradients = std::vector<std::vector<float>>;

/// A rank's gradient at a model, of either precision; and the aggregate of all workers at that point, in float64.
struct Task {
  std::function<std::vector<float>(const std::vector<float>& model, int rank, std::uint32_t step)> gradient;
  std::function<Vector(const Vector& model, std::uint32_t step)> aggregate;
};

void check(const char* name, const MethodOptions& options, const OptimizerOptions& optimizer, const Task& task) {
  run_ranks(kWorkers, [&](Communicator& communicator) {
    Task mine = task;  // each rank has its own model of all workers
    Worker worker(method_row(name), options, communicator, optimizer);
    const std::size_t n = worker.model.size();
    std::vector<OptimizerModel> expected(n);
    for (OptimizerModel& one : expected) one.x = one.largest = 0.5;
    const OptimizerOptions follows = std::string(name) == "adam"
                                         ? OptimizerOptions{.name = "adam", .weight_decay = optimizer.weight_decay}
                                         : optimizer;
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      Vector point(n);
      for (std::size_t i = 0; i < n; ++i) point[i] = expected[i].x;
      const Vector aggregate = mine.aggregate(point, step);
      auto gradient = mine.gradient(worker.model, communicator.rank(), step);
      const StepKey key{42, step, static_cast<std::uint32_t>(communicator.rank())};
      worker.method->step({key, learning_rate(step)}, worker.model, gradient);
      for (std::size_t i = 0; i < n; ++i) {
        expected[i].step(follows, static_cast<int>(step) + 1, static_cast<double>(learning_rate(step)), aggregate[i]);
        ASSERT_NEAR(static_cast<double>(worker.model[i]), expected[i].x, kRounding)
            << "step " << step << ", entry " << i;
      }
    }
  });
}

const std::vector<std::pair<const char*, OptimizerOptions>> kOptimizers{
    {"plain", {}},
    {"decay", {.weight_decay = 0.01}},
    {"momentum", {.momentum = 0.9}},
    {"momentum and decay", {.momentum = 0.9, .weight_decay = 0.01}},
    {"nesterov and decay", {.momentum = 0.9, .nesterov = true, .weight_decay = 0.01}},
    {"adam", {.name = "adam"}},
    {"adam and decay", {.name = "adam", .weight_decay = 0.01}}};

/// Workers that pull to targets of their own: the gradient depends on the model.
Task pulling() {
  return {pull_gradient, [](const Vector& model, std::uint32_t step) {
            Vector mean(model.size(), 0.0);
            for (int rank = 0; rank < kWorkers; ++rank) {
              const Vector one = pull_gradient64(model, rank, step);
              for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += one[i] / kWorkers;
            }
            return mean;
          }};
}

TEST(Lift, SgdWithEveryOptimizer) {
  for (const auto& [name, optimizer] : kOptimizers) {
    SCOPED_TRACE(name);
    check("sgd", {}, optimizer, pulling());
  }
}

TEST(Lift, TheRowAdamIsAdam) {
  check("adam", {}, {}, pulling());
  check("adam", {}, {.weight_decay = 0.01}, pulling());
}

std::vector<float> fixed_gradient(std::uint64_t n, int rank, std::uint32_t step) {
  return normal_values(n, 1000ULL * step + static_cast<std::uint64_t>(rank));
}

/// Gradients that do not depend on the model, so that what is selected or voted does not hang on a rounding.
Task fixed(std::function<Vector(const Gradients& gradients, std::uint32_t step)> aggregate) {
  return {[](const std::vector<float>& model, int rank, std::uint32_t step) {
            return fixed_gradient(model.size(), rank, step);
          },
          [aggregate = std::move(aggregate)](const Vector& model, std::uint32_t step) {
            Gradients gradients;
            for (int rank = 0; rank < kWorkers; ++rank) gradients.push_back(fixed_gradient(model.size(), rank, step));
            return aggregate(gradients, step);
          }};
}

TEST(Lift, TopkAndRegtopkWithEveryOptimizer) {
  for (const auto& [name, optimizer] : kOptimizers) {
    SCOPED_TRACE(name);
    for (const double mu : {0.0, 4.0}) {
      std::vector<SparseModel> workers(kWorkers, SparseModel{.keep = 0.05, .mu = mu});
      check(mu == 0.0 ? "topk" : "regtopk", {.keep = 0.05}, optimizer,
            fixed([workers](const Gradients& gradients, std::uint32_t) mutable {
              return sparse_mean(workers, gradients);
            }));
    }
  }
}

// x <- x - η(vote + λx): the decay is outside the vote, the momentum on the worker.
TEST(Lift, SignumWithWeightDecay) {
  const auto vote = [](double beta) {
    return [beta, momenta = std::vector<Vector>()](const Gradients& gradients, std::uint32_t) mutable {
      const std::size_t n = gradients.front().size();
      momenta.resize(gradients.size(), Vector(n, 0.0));
      Vector votes(n, 0.0);
      for (std::size_t rank = 0; rank < gradients.size(); ++rank) {
        for (std::size_t i = 0; i < n; ++i) {
          double& v = momenta[rank][i];
          v = beta * v + (1.0 - beta) * static_cast<double>(gradients[rank][i]);
          votes[i] += v < 0.0 ? -1.0 : 1.0;
        }
      }
      for (double& each : votes) each = each < 0.0 ? -1.0 : 1.0;
      return votes;
    };
  };
  check("signum", {}, {.weight_decay = 0.1}, fixed(vote(0.9)));
  check("signsgd", {}, {.weight_decay = 0.1}, fixed(vote(0.0)));
}

}  // namespace
}  // namespace laconic::test
