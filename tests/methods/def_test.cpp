// EF, DEF and DEF-A against the page: trajectories in float64, the two identities, conservation, chances of entries.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/convert/convert.h"
#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/def_model.h"
#include "methods/random_blocks.h"
#include "support/statistics.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr std::uint32_t kSteps = 50;

/// The learning rate drops in the middle of a run.
float rate_of(std::uint32_t step) { return step < 25 ? 0.05F : 0.005F; }

struct Case {
  std::string method;
  double lambda;
  double momentum;
  double weight_decay;
  std::uint32_t local_steps;
  std::string scope;
  std::string order;
  bool nesterov = false;
};

MethodOptions options_of(const Case& each) {
  MethodOptions options{.ratio = 8, .scope = each.scope, .order = each.order, .momentum = each.momentum};
  options.weight_decay = each.weight_decay;
  if (each.method != "ef-rbgs") {
    options.lambda = each.lambda;
    options.local_steps = each.local_steps;
  }
  return options;
}

class Trajectory : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Def, Trajectory,
                         testing::Values(Case{"def", 0.3, 0.9, 0.01, 1, "tensor", "rank_order"},
                                         Case{"def", 0.6, 0.0, 0.0, 1, "model", "rank_order"},
                                         Case{"def-a", 0.3, 0.9, 0.0, 1, "tensor", "engine"},
                                         Case{"def-a", 0.0, 0.5, 0.0, 1, "model", "rank_order"},
                                         Case{"def", 0.3, 0.9, 0.01, 3, "tensor", "rank_order"},
                                         Case{"ef-rbgs", 0.0, 0.5, 0.01, 1, "tensor", "rank_order"},
                                         Case{"def", 0.3, 0.9, 0.01, 1, "tensor", "rank_order", true},
                                         Case{"def-a", 0.3, 0.9, 0.01, 3, "model", "rank_order", true},
                                         Case{"ef-rbgs", 0.0, 0.5, 0.01, 1, "tensor", "engine", true}));

TEST_P(Trajectory, FollowsThePage) {
  const Case& each = GetParam();
  run_ranks(3, [&](Communicator& communicator) {
    Worker worker(method_row(each.method), options_of(each), communicator, {.nesterov = each.nesterov});
    DefModel model(3, Vector(worker.model.size(), 0.5));
    model.lambda = each.lambda;
    model.momentum = each.momentum;
    model.weight_decay = each.weight_decay;
    model.nesterov = each.nesterov;
    const auto me = static_cast<std::size_t>(communicator.rank());
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      auto gradient = pull_gradient(worker.model, communicator.rank(), step);
      worker.method->step({key_of(communicator, step), rate_of(step)}, worker.model, gradient);
      model.step(
          static_cast<double>(rate_of(step)), (step + 1) % each.local_steps == 0,
          [&](const Vector& point, int k) { return pull_gradient64(point, k, step); },
          [&](const Vector& p) { return random_block(small_model(), 8, each.scope == "tensor", step, p); });
      // Rounding of float32 in values of up to 10, over 50 steps of a contraction.
      ASSERT_LT(distance(worker.model, model.local[me]), 2e-5) << "step " << step;
      ASSERT_LT(distance(saved(*worker.method, "point"), model.x), 2e-5) << "step " << step;
      Vector owed = model.e[me];
      for (std::size_t i = 0; i < owed.size(); ++i) owed[i] += model.delta[me][i];
      ASSERT_LT(distance(saved(*worker.method, "residual"), owed), 2e-5) << "step " << step;
      ASSERT_LT(distance(worker.read_out(), each.method == "def" ? model.virtual_iterate() : model.x), 2e-5);
    }
  });
}

// With one worker, λ = 1 and C(p) = δ·p the point y = x − e runs plain SGD, and x is its running average.
TEST(PageOnly, SgdIaHoldsInTheModelOfDef) {
  const double delta = 0.2;
  const double rate = 0.05;
  DefModel model(1, Vector(40, 0.5));
  model.lambda = 1.0;
  Vector plain(40, 0.5);
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    const Vector before = model.x;
    model.step(
        rate, true, [&](const Vector& point, int) { return pull_gradient64(point, 0, step); },
        [&](Vector p) {
          for (double& value : p) value *= delta;
          return p;
        });
    const Vector gradient = pull_gradient64(plain, 0, step);
    for (std::size_t i = 0; i < plain.size(); ++i) plain[i] -= rate * gradient[i];
    const Vector y = model.virtual_iterate();
    for (std::size_t i = 0; i < plain.size(); ++i) {
      ASSERT_NEAR(y[i], plain[i], 1e-13);
      ASSERT_NEAR(model.x[i], (1 - delta) * before[i] + delta * y[i], 1e-13);
    }
  }
}

// The half of it that holds for every C, on the method itself.
TEST(SgdIa, OneWorkerFullyDetachedRunsPlainSgd) {
  run_ranks(1, [](Communicator& communicator) {
    Worker worker(method_row("def"), {.ratio = 8, .lambda = 1.0}, communicator);
    Vector plain(worker.model.size(), 0.5);
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      worker.step(step);
      const Vector gradient = pull_gradient64(plain, 0, step);
      for (std::size_t i = 0; i < plain.size(); ++i) plain[i] -= 0.05 * gradient[i];
      ASSERT_LT(distance(worker.model, plain), 2e-5) << "step " << step;
      ASSERT_LT(distance(worker.read_out(), plain), 2e-5) << "step " << step;
    }
  });
}

// y moves by −η·mean of m for every C: exactly, for integers and W a power of two, also between meetings.
TEST(VirtualIterate, MovesByTheMeanOfTheMomentaExactly) {
  for (const char* name : {"def", "def-a", "ef-rbgs"}) {
    for (const int ranks : {1, 2, 4}) {
      run_ranks(ranks, [&](Communicator& communicator) {
        MethodOptions options{.ratio = 5};
        if (std::string(name) != "ef-rbgs") options.local_steps = 2;
        Worker worker(method_row(name), options, communicator);
        const auto n = worker.model.size();
        Vector y(n, 0.5);
        for (std::uint32_t step = 0; step < 12; ++step) {
          auto gradient = integer_gradient(n, communicator.rank(), step);
          const auto sum = sum_everywhere(communicator, gradient);
          worker.method->step({key_of(communicator, step), 0.5F}, worker.model, gradient);
          const auto x = saved(*worker.method, "point");
          const auto owed = sum_everywhere(communicator, saved(*worker.method, "residual"));
          ASSERT_TRUE(same_everywhere(communicator, x));
          for (std::size_t i = 0; i < n; ++i) {
            y[i] -= 0.5 * sum[i] / ranks;
            ASSERT_EQ(static_cast<double>(x[i]) - owed[i] / ranks, y[i]) << name << " step " << step << " entry " << i;
          }
        }
      });
    }
  }
}

// The same with Nesterov's momentum: y moves by −η·mean of g + β·m. With β = ½ and small integers all is exact.
TEST(VirtualIterate, MovesByTheMeanOfNesterovsDirectionsExactly) {
  for (const char* name : {"def", "def-a", "ef-rbgs"}) {
    run_ranks(4, [&](Communicator& communicator) {
      MethodOptions options{.ratio = 5};
      if (std::string(name) != "ef-rbgs") options.local_steps = 2;
      Worker worker(method_row(name), options, communicator, {.momentum = 0.5, .nesterov = true});
      const auto n = worker.model.size();
      Vector y(n, 0.5);
      Vector m(n, 0.0);  // of all workers together
      for (std::uint32_t step = 0; step < 8; ++step) {
        auto gradient = integer_gradient(n, communicator.rank(), step);
        const auto sum = sum_everywhere(communicator, gradient);
        worker.method->step({key_of(communicator, step), 0.5F}, worker.model, gradient);
        const auto x = saved(*worker.method, "point");
        const auto owed = sum_everywhere(communicator, saved(*worker.method, "residual"));
        for (std::size_t i = 0; i < n; ++i) {
          m[i] = 0.5 * m[i] + sum[i];
          y[i] -= 0.5 * (sum[i] + 0.5 * m[i]) / 4;
          ASSERT_EQ(static_cast<double>(x[i]) - owed[i] / 4, y[i]) << name << " step " << step << " entry " << i;
        }
      }
    });
  }
}

// Sent + residual = step + old residual on each rank: off the block nothing is touched, on it the rounding stays.
TEST(Conservation, KeepsTheRoundingOf16BitValues) {
  for (const auto format : {ValueFormat::f16, ValueFormat::bf16}) {
    run_ranks(2, [&](Communicator& communicator) {
      Worker worker(method_row("def"), {.ratio = 8, .values = format_name(format)}, communicator);
      const auto n = worker.model.size();
      for (std::uint32_t step = 0; step < 10; ++step) {
        auto gradient = normal_values(n, 100 * step + static_cast<std::uint64_t>(communicator.rank()));
        const auto before = saved(*worker.method, "residual");
        const auto x = saved(*worker.method, "point");
        std::vector<float> sent(n);
        for (std::size_t i = 0; i < n; ++i) sent[i] = 0.25F * gradient[i] + before[i];
        const Vector block = random_block(small_model(), 8, true, step, Vector(n, 1.0));
        std::vector<float> left(n);
        Status status;
        round_through_16bit(worker.place, format, sent, left, view_of(status));
        for (std::size_t i = 0; i < n; ++i) {
          if (block[i] != 0.0) continue;
          left[i] = 0.25F * gradient[i] + before[i];
          sent[i] = 0.0F;
        }
        const auto sum = sum_everywhere(communicator, sent);
        worker.method->step({key_of(communicator, step), 0.25F}, worker.model, gradient);
        ASSERT_TRUE(saved(*worker.method, "residual") == left) << "step " << step;
        std::vector<float> mean(n);
        for (std::size_t i = 0; i < n; ++i) mean[i] = static_cast<float>(sum[i]) / 2.0F;
        round_through_16bit(worker.place, format, mean, left, view_of(status));
        const auto moved = saved(*worker.method, "point");
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(moved[i], x[i] - mean[i]);
      }
    });
  }
}

// In parameter units: with a learning rate of 0 the residual off the block stays as it is, and the block is paid in
// full.
TEST(LearningRate, ChangeDoesNotRescaleWhatIsOwed) {
  run_ranks(2, [](Communicator& communicator) {
    Worker worker(method_row("def"), {.ratio = 8}, communicator);
    for (std::uint32_t step = 0; step < 5; ++step) worker.step(step);
    const auto before = saved(*worker.method, "residual");
    const auto x = saved(*worker.method, "point");
    const auto sum = sum_everywhere(communicator, before);
    auto gradient = pull_gradient(worker.model, communicator.rank(), 5);
    worker.method->step({key_of(communicator, 5), 0.0F}, worker.model, gradient);
    const auto after = saved(*worker.method, "residual");
    const auto moved = saved(*worker.method, "point");
    const Vector block = random_block(small_model(), 8, true, 5, Vector(x.size(), 1.0));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(after[i], block[i] != 0.0 ? 0.0F : before[i]);
      ASSERT_EQ(moved[i], block[i] != 0.0 ? x[i] - static_cast<float>(sum[i]) / 2.0F : x[i]);
    }
  });
}

// Each entry is kept with probability block/n, draws of different steps being independent: Bernstein's bound for each
// of the 2,251 entries in both scopes, a false alarm in one of a million choices of the seed for all of them together.
TEST(RandomBlocks, GiveEachEntryItsChance) {
  constexpr std::uint32_t kDraws = 100'000;
  const auto n = size_of(small_model());
  const double alarm = chance_of_one(2.0 * static_cast<double>(n));
  for (const bool by_tensor : {true, false}) {
    RandomBlocks blocks(8, by_tensor);
    blocks.prepare(small_model());
    std::vector<std::uint32_t> kept(n, 0);
    for (std::uint32_t step = 0; step < kDraws; ++step) {
      for (const Block& block : blocks.draw({9, step, 3})) {
        ASSERT_LT(block.start, block.size);
        for (std::uint64_t i = 0; i < block.count; ++i) ++kept[block.offset + (block.start + i) % block.size];
      }
    }
    std::size_t i = 0;
    for (const Tensor& scope : by_tensor ? small_model() : std::vector<Tensor>{{"all", n}}) {
      const auto size = static_cast<double>(scope.size);
      const double chance = std::max(1.0, std::floor(size / 8.0)) / size;
      const double allowed = bernstein(kDraws * chance * (1.0 - chance), 1.0, alarm);
      EXPECT_TRUE(allowed < 0.12 * kDraws * chance || chance == 1.0) << "the bound must say something";
      for (const std::size_t end = i + scope.size; i < end; ++i) {
        ASSERT_LE(std::abs(kept[i] - kDraws * chance), chance == 1.0 ? 0.0 : allowed) << "entry " << i;
      }
    }
  }
}

TEST(RandomBlocks, AreTheSameOnAllRanksAndDifferByTensorStepAndSeed) {
  const std::vector<Tensor> twins{{"a", 1000}, {"empty", 0}, {"b", 1000}, {"one", 1}};
  RandomBlocks blocks(2000, true);
  blocks.prepare(twins);
  ASSERT_EQ(blocks.size(), 3U);  // at least one entry of each, none of the empty one
  const auto starts = [&](StepKey key) {
    const auto drawn = blocks.draw(key);
    return std::vector<std::uint64_t>{drawn[0].start, drawn[1].start};
  };
  EXPECT_EQ(starts({1, 2, 0}), starts({1, 2, 5}));
  EXPECT_NE(starts({1, 2, 0})[0], starts({1, 2, 0})[1]);
  EXPECT_NE(starts({1, 2, 0}), starts({1, 3, 0}));
  EXPECT_NE(starts({1, 2, 0}), starts({2, 2, 0}));
}

TEST(Diagnosis, IsTheBestLambdaOfTheStep) {
  for (const int ranks : {1, 3}) {
    run_ranks(ranks, [&](Communicator& communicator) {
      Worker worker(method_row("def-a"), {.ratio = 8, .diagnose = "on"}, communicator);
      for (std::uint32_t step = 0; step < 4; ++step) {
        const StepReport report = worker.step(step);
        const auto own = saved(*worker.method, "residual");
        double squares = 0.0;
        for (const float value : own) squares += static_cast<double>(value) * static_cast<double>(value);
        const auto all_squares = sum_everywhere(communicator, {static_cast<float>(squares)});
        double together = 0.0;
        for (const double value : sum_everywhere(communicator, own)) together += value / ranks * (value / ranks);
        ASSERT_NEAR(report.extra, together / (all_squares[0] / ranks), 1e-5);
        if (ranks == 1) {
          ASSERT_NEAR(report.extra, 1.0, 1e-6);
        }
      }
    });
  }
}

}  // namespace
}  // namespace laconic::test
