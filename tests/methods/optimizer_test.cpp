// Optimizers against their textbook formulas in float64: the same gradients, 50 steps, a learning rate that changes.

#include "methods/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "laconic/error.h"
#include "methods/optimizer_model.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr int kSteps = 50;
constexpr std::size_t kParameters = 257;

/// Warm-up, a plateau, a drop by ten, and one step of zero.
float learning_rate(int step) {
  if (step == 20) return 0.0F;
  if (step < 5) return 0.01F * static_cast<float>(step + 1);
  return step < 30 ? 0.05F : 0.005F;
}

std::vector<float> gradient_of(int step) { return normal_values(kParameters, 100 + static_cast<std::uint64_t>(step)); }
std::vector<float> start_point() { return normal_values(kParameters, 7); }

struct Named {
  const char* name;
  OptimizerOptions options;
};

class EveryOptimizer : public testing::TestWithParam<Named> {
 protected:
  static Optimizer made(Place& place) {
    Optimizer optimizer(GetParam().options);
    optimizer.prepare(place, kParameters);
    return optimizer;
  }
  static void step(Optimizer& optimizer, Place& place, int number, std::vector<float>& model) {
    const auto gradient = gradient_of(number);
    optimizer.step(place, learning_rate(number), gradient, model);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Table, EveryOptimizer,
    testing::Values(Named{"sgd", {}}, Named{"sgd_decay", {.weight_decay = 0.01}}, Named{"momentum", {.momentum = 0.9}},
                    Named{"momentum_decay", {.momentum = 0.9, .weight_decay = 0.01}},
                    Named{"nesterov", {.momentum = 0.9, .nesterov = true}},
                    Named{"nesterov_decay", {.momentum = 0.7, .nesterov = true, .weight_decay = 0.01}},
                    Named{"adam", {.name = "adam"}}, Named{"adam_decay", {.name = "adam", .weight_decay = 0.01}},
                    Named{"adam_others", {.name = "adam", .beta1 = 0.5, .beta2 = 0.9, .epsilon = 1e-3}},
                    Named{"adamw", {.name = "adamw", .weight_decay = 0.1}},
                    Named{"adamw_without_decay", {.name = "adamw"}}),
    [](const auto& test) { return test.param.name; });

TEST_P(EveryOptimizer, FollowsItsTextbookFormula) {
  const OptimizerOptions& options = GetParam().options;
  Place place({.threads = 1});
  Optimizer optimizer = made(place);
  std::vector<float> model = start_point();
  std::vector<OptimizerModel> expected(kParameters);
  for (std::size_t i = 0; i < kParameters; ++i) {
    expected[i].x = static_cast<double>(model[i]);
    expected[i].largest = std::fabs(expected[i].x);
  }
  for (int number = 0; number < kSteps; ++number) {
    step(optimizer, place, number, model);
    const auto gradient = gradient_of(number);
    const auto rate = static_cast<double>(learning_rate(number));
    for (std::size_t i = 0; i < kParameters; ++i) {
      OptimizerModel& one = expected[i];
      const auto slope = static_cast<double>(gradient[i]);
      one.step(options, number + 1, rate, slope);
      // Half a unit in the last place for each subtraction, the same for adamw's factor and for its product, and some
      // units of what was subtracted: the moments' own roundings and their float32 coefficients.
      const auto unit = static_cast<double>(std::numeric_limits<float>::epsilon());
      const double roundings = options.name == "adamw" ? 3.0 : 1.0;
      const double allowed = unit * (0.5 * roundings * (number + 1) * one.largest + 4.0 * one.travelled);
      ASSERT_NEAR(static_cast<double>(model[i]), one.x, allowed) << "step " << number << ", parameter " << i;
    }
  }
}

TEST_P(EveryOptimizer, GoesOnFromWhatWasSaved) {
  Place place({.threads = 1});
  for (const int cut : {1, 20, 21, 49}) {
    Optimizer straight = made(place);
    std::vector<float> model = start_point();
    State saved;
    std::vector<float> taken_up;
    for (int number = 0; number < kSteps; ++number) {
      if (number == cut) {
        straight.save(place, saved);
        taken_up = model;
      }
      step(straight, place, number, model);
    }
    Optimizer resumed = made(place);
    resumed.load(place, State::from_bytes(saved.to_bytes()));
    for (int number = cut; number < kSteps; ++number) step(resumed, place, number, taken_up);
    EXPECT_EQ(std::memcmp(taken_up.data(), model.data(), kParameters * sizeof(float)), 0) << "cut at " << cut;
    State ended;
    State ended_resumed;
    straight.save(place, ended);
    resumed.save(place, ended_resumed);
    EXPECT_EQ(ended.to_bytes(), ended_resumed.to_bytes()) << "cut at " << cut;
  }
}

TEST_P(EveryOptimizer, DoesNotDependOnThreads) {
  Place alone({.threads = 1});
  Place together({.threads = 3});
  Optimizer one = made(alone);
  Optimizer other = made(together);
  std::vector<float> model = start_point();
  std::vector<float> same = model;
  for (int number = 0; number < kSteps; ++number) {
    step(one, alone, number, model);
    step(other, together, number, same);
  }
  EXPECT_EQ(std::memcmp(model.data(), same.data(), kParameters * sizeof(float)), 0);
}

TEST_P(EveryOptimizer, AStepOfZeroLengthStillRemembersItsGradient) {
  Place place({.threads = 1});
  Optimizer optimizer = made(place);
  std::vector<float> model = start_point();
  const std::vector<float> before = model;
  const auto gradient = gradient_of(0);
  optimizer.step(place, 0.0F, gradient, model);
  EXPECT_EQ(model, before);
  for (const View<float>& memory : optimizer.memory()) EXPECT_NE(memory[0], 0.0F);
  EXPECT_EQ(optimizer.steps(), 1U);
}

TEST_P(EveryOptimizer, MakesTheSameStepInParts) {
  Place place({.threads = 1});
  Optimizer whole = made(place);
  Optimizer in_parts = made(place);
  Optimizer tried = made(place);
  std::vector<float> model = start_point();
  std::vector<float> same = model;
  std::vector<float> next(same.size());
  for (int number = 0; number < kSteps; ++number) {
    step(whole, place, number, model);
    const auto gradient = gradient_of(number);
    tried.take_step_of(in_parts);
    for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{100, kParameters}, {0, 1}, {1, 100}}) {
      const auto part = [&, begin = begin, end = end](auto view) { return view.sub(begin, end - begin); };
      tried.try_part(place, learning_rate(number), begin, part(View<const float>(gradient)), in_parts,
                     part(View<const float>(same)), part(View<float>(next)));
    }
    std::swap(tried, in_parts);
    std::swap(same, next);
  }
  EXPECT_EQ(std::memcmp(model.data(), same.data(), kParameters * sizeof(float)), 0);
  EXPECT_EQ(whole.steps(), in_parts.steps());
}

TEST(OptimizerTest, RefusalsNameValueAndRange) {
  const auto text = [](const OptimizerOptions& options) {
    return message_of<InvalidConfig>([&] { Optimizer refused(options); });
  };
  EXPECT_TRUE(contains(text({.name = "lamb"}), "one of sgd | adam | adamw | host, got lamb"));
  EXPECT_TRUE(contains(text({.momentum = 1.0}), "momentum must be in [0, 1), got 1: ")) << text({.momentum = 1.0});
  EXPECT_TRUE(contains(text({.weight_decay = -0.1}), "weight_decay must be in [0"));
  EXPECT_TRUE(contains(text({.name = "adam", .beta2 = 1.5}), "got 1.5"));
  EXPECT_TRUE(contains(text({.name = "adam", .beta1 = 1.0}), "beta1 must be in [0"));
  EXPECT_TRUE(contains(text({.name = "adam", .momentum = 0.5}), "adam takes no momentum"));
  EXPECT_TRUE(contains(text({.name = "adamw", .momentum = 0.5}), "adamw takes no momentum"));
  EXPECT_TRUE(contains(text({.name = "adam", .nesterov = true}), "adam takes no nesterov"));
  for (const double epsilon : {0.0, -1e-8, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_TRUE(contains(text({.name = "adam", .epsilon = epsilon}), "epsilon must be in (0, infinity), got ")) << epsilon;
  }
  EXPECT_TRUE(contains(text({.nesterov = true}), "nesterov needs a momentum above 0"));
}

// Between two matrices lies a tensor that is none: it steps as without weight decay, in one piece or in parts.
TEST_P(EveryOptimizer, DecaysMatricesAlone) {
  const std::vector<Tensor> tensors{{"first", 100}, {"norm", 57, false}, {"second", 100}};
  OptimizerOptions options = GetParam().options;
  options.weight_decay = 0.1;
  OptimizerOptions without = options;
  without.weight_decay = 0.0;
  Place place;
  Optimizer everywhere(options), nowhere(without);
  everywhere.prepare(place, tensors);
  nowhere.prepare(place, tensors);
  options.weight_decay_on = "matrices";
  Optimizer whole(options), parts(options);
  whole.prepare(place, tensors);
  parts.prepare(place, tensors);
  auto decayed = start_point(), plain = decayed, mixed = decayed, in_parts = decayed;
  for (int number = 0; number < 10; ++number) {
    const auto gradient = gradient_of(number);
    const float rate = learning_rate(number);
    everywhere.step(place, rate, gradient, decayed);
    nowhere.step(place, rate, gradient, plain);
    whole.step(place, rate, gradient, mixed);
    parts.count_step();
    for (const auto& [offset, size] : {std::pair{0U, 130U}, {130U, 127U}}) {
      parts.step_part(place, rate, offset, View<const float>(gradient).sub(offset, size),
                      View<float>(in_parts).sub(offset, size));
    }
  }
  EXPECT_EQ(in_parts, mixed);
  for (std::size_t i = 0; i < kParameters; ++i) {
    EXPECT_EQ(mixed[i], i >= 100 && i < 157 ? plain[i] : decayed[i]) << i;
  }
  EXPECT_NE(decayed, plain);
}

}  // namespace
}  // namespace laconic::test
