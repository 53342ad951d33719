#include "kernels/descent/descent.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "laconic/error.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr std::size_t kSizes[] = {0, 1, 15, 16, 17, 2'047, 2'049, 100'003};

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

/// Every size, off the vector alignment, with one and with three threads.
template <class Body>
void for_each_case(Body&& body) {
  for (const std::size_t n : kSizes) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(std::to_string(n) + " entries, threads " + std::to_string(threads));
      Place place({.threads = threads});
      body(place, n);
    }
  }
}

std::vector<Coefficients> all_coefficients() {
  std::vector<Coefficients> all;
  for (const float momentum : {0.0F, 0.9F}) {
    for (const float decay : {0.0F, 0.01F}) {
      all.push_back({.learning_rate = 0.1F, .momentum = momentum, .weight_decay = decay});
      if (momentum != 0.0F) {
        all.push_back({.learning_rate = 0.1F, .momentum = momentum, .weight_decay = decay, .nesterov = true});
      }
    }
  }
  return all;
}

/// SGD's step on one entry as the header writes it. Returns the direction.
float direction_of(const Coefficients& step, float gradient, float model, float& momentum) {
  const float decayed = step.weight_decay != 0.0F ? gradient + step.weight_decay * model : gradient;
  if (step.momentum == 0.0F) return decayed;
  momentum = step.momentum * momentum + decayed;
  return step.nesterov ? decayed + step.momentum * momentum : momentum;
}

TEST(Descent, SgdIsTheHeadersFormulaBitForBit) {
  for (const Coefficients& step : all_coefficients()) {
    for_each_case([&](Place& place, std::size_t n) {
      const auto gradient = normal_values(n, 1);
      auto expected_model = normal_values(n, 2);
      auto expected_momentum = normal_values(n, 3);
      Guarded<float> model(expected_model, 5);
      Guarded<float> momentum(expected_momentum, 3);
      const View<float> moment = step.momentum != 0.0F ? momentum.view() : View<float>();
      sgd_step(place, step, gradient, moment, model.view());
      for (std::size_t i = 0; i < n; ++i) {
        const float direction = direction_of(step, gradient[i], expected_model[i], expected_momentum[i]);
        expected_model[i] = expected_model[i] - step.learning_rate * direction;
      }
      EXPECT_EQ(bits_of(model.values()), bits_of(expected_model));
      EXPECT_EQ(bits_of(momentum.values()), bits_of(expected_momentum));
      EXPECT_TRUE(model.intact() && momentum.intact());
    });
  }
}

TEST(Descent, AdamIsTheHeadersFormulaBitForBit) {
  for (const auto& [decay, shrink] : {std::pair{0.0F, 1.0F}, {0.01F, 1.0F}, {0.0F, 0.9995F}}) {
    const AdamCoefficients step{.learning_rate = 0.1F, .weight_decay = decay, .beta1 = 0.9F, .beta2 = 0.999F,
                                .fresh1 = 0.1F, .fresh2 = 0.001F, .correction1 = 0.19F, .correction2 = 0.002F,
                                .epsilon = 1e-8F, .shrink = shrink};
    for_each_case([&](Place& place, std::size_t n) {
      const auto gradient = normal_values(n, 1);
      const auto before = normal_values(n, 2);
      Guarded<float> model(before, 1);
      Guarded<float> first(n, 2);
      Guarded<float> second(n, 3);
      adam_step(place, step, gradient, first.view(), second.view(), model.view());
      std::vector<float> expected(n);
      for (std::size_t i = 0; i < n; ++i) {
        const float g = decay != 0.0F ? gradient[i] + decay * before[i] : gradient[i];
        const float mean = 0.9F * 0.0F + 0.1F * g;
        const float square = 0.999F * 0.0F + 0.001F * (g * g);
        expected[i] = shrink * before[i] - 0.1F * ((mean / 0.19F) / (std::sqrt(square / 0.002F) + 1e-8F));
      }
      EXPECT_EQ(bits_of(model.values()), bits_of(expected));
      EXPECT_TRUE(model.intact() && first.intact() && second.intact());
    });
  }
}

TEST(Descent, ATriedStepHasTheSameBitsAndLeavesWhatItReads) {
  const AdamCoefficients adam{.learning_rate = 0.1F, .weight_decay = 0.01F, .beta1 = 0.9F, .beta2 = 0.999F,
                              .fresh1 = 0.1F, .fresh2 = 0.001F, .correction1 = 0.19F, .correction2 = 0.002F,
                              .epsilon = 1e-8F};
  const auto check = [](Place& place, std::size_t n, bool has_first, bool has_second, const auto& in_place,
                        const auto& try_step) {
    const auto gradient = normal_values(n, 1);
    const auto some = [&](bool has, std::uint64_t seed) { return has ? normal_values(n, seed) : std::vector<float>(); };
    const auto first = some(has_first, 3);
    auto second = some(has_second, 4);
    for (float& square : second) square = std::fabs(square);
    const auto model = normal_values(n, 2);
    auto expected_first = first;
    auto expected_second = second;
    auto expected_model = model;
    in_place(place, gradient, View<float>(expected_first), View<float>(expected_second), View<float>(expected_model));
    Guarded<float> next_first(first.size(), 3);
    Guarded<float> next_second(second.size(), 5);
    Guarded<float> next_model(n, 1);
    const auto kept = model;
    try_step(place, gradient, StepMemory<const float>{first, second, model},
             StepMemory<float>{next_first.view(), next_second.view(), next_model.view()});
    EXPECT_EQ(bits_of(next_first.values()), bits_of(expected_first));
    EXPECT_EQ(bits_of(next_second.values()), bits_of(expected_second));
    EXPECT_EQ(bits_of(next_model.values()), bits_of(expected_model));
    EXPECT_EQ(bits_of(model), bits_of(kept));
    EXPECT_TRUE(next_first.intact() && next_second.intact() && next_model.intact());
  };
  for_each_case([&](Place& place, std::size_t n) {
    for (const Coefficients& sgd : all_coefficients()) {
      check(
          place, n, sgd.momentum != 0.0F, false,
          [&](Place& where, View<const float> gradient, View<float> first, View<float>, View<float> model) {
            sgd_step(where, sgd, gradient, first, model);
          },
          [&](Place& where, View<const float> gradient, const auto& before, const auto& after) {
            try_sgd_step(where, sgd, gradient, before, after);
          });
    }
    for (const float decay : {0.0F, 0.01F}) {
      AdamCoefficients step = adam;
      step.weight_decay = decay;
      check(
          place, n, true, true,
          [&](Place& where, View<const float> gradient, View<float> first, View<float> second, View<float> model) {
            adam_step(where, step, gradient, first, second, model);
          },
          [&](Place& where, View<const float> gradient, const auto& before, const auto& after) {
            try_adam_step(where, step, gradient, before, after);
          });
    }
  });
}

TEST(Descent, ErrorFeedbackKeepsTheOldMomentumAndFollowsTheSameDirection) {
  for (const Coefficients& step : all_coefficients()) {
    for_each_case([&](Place& place, std::size_t n) {
      const auto model_before = normal_values(n, 2);
      const auto momentum_before = normal_values(n, 3);
      auto error = normal_values(n, 4);
      for (std::size_t i = 0; i < n; i += 3) error[i] = 0.0F;
      Guarded<float> gradient(normal_values(n, 1), 7);
      Guarded<float> momentum(momentum_before, 3);
      Guarded<float> next_error(n, 9);
      const bool has_momentum = step.momentum != 0.0F;
      Status status;
      add_step_to_error(place, step, gradient.view(),
                        {model_before, error, next_error.view(), has_momentum ? momentum.view() : View<float>()},
                        view_of(status));
      const auto raw = normal_values(n, 1);
      auto expected_momentum = momentum_before;
      std::vector<float> expected_error(n);
      for (std::size_t i = 0; i < n; ++i) {
        const float direction = direction_of(step, raw[i], model_before[i], expected_momentum[i]);
        const float moved = step.learning_rate * direction;
        expected_error[i] = error[i] == 0.0F ? moved : moved + error[i];
      }
      EXPECT_EQ(bits_of(next_error.values()), bits_of(expected_error));
      EXPECT_EQ(bits_of(momentum.values()), bits_of(expected_momentum));
      if (has_momentum) {
        EXPECT_EQ(bits_of(gradient.values()), bits_of(momentum_before));
      }
      EXPECT_EQ(status.nonfinite, 0U);

      Guarded<float> model(model_before, 2);
      follow_step(place, step, gradient.view(), has_momentum ? View<const float>(momentum.view()) : View<const float>(),
                  model.view());
      const auto moved = model.values();
      for (std::size_t i = 0; i < n; ++i) {
        float again = momentum_before[i];
        const float direction = direction_of(step, raw[i], model_before[i], again);
        ASSERT_NEAR(moved[i], model_before[i] - step.learning_rate * direction, 1e-5F) << i;
      }
      EXPECT_TRUE(gradient.intact() && momentum.intact() && next_error.intact() && model.intact());
    });
  }
}

TEST(Descent, AResidualOfZeroChangesNoBitAndNonfiniteSumsAreFlagged) {
  Place place({.threads = 1});
  const std::vector<float> values{-0.0F, -0.0F, 1.0F};
  const std::vector<float> residual{0.0F, -0.0F, 2.0F};
  std::vector<float> out(3);
  Status status;
  add_residual(place, values, residual, out, view_of(status));
  EXPECT_TRUE(std::signbit(out[0]) && std::signbit(out[1]));
  EXPECT_EQ(out[2], 3.0F);
  EXPECT_EQ(status.nonfinite, 0U);
  const std::vector<float> huge{std::numeric_limits<float>::max(), 0.0F, 0.0F};
  add_residual(place, huge, huge, out, view_of(status));
  EXPECT_EQ(status.nonfinite, 1U);
}

TEST(Descent, BlendMeanAndDifferenceRoundEachOperation) {
  for_each_case([](Place& place, std::size_t n) {
    const auto x = normal_values(n, 1);
    const auto y = normal_values(n, 2);
    Guarded<float> blended(y, 1);
    Guarded<float> mean(n, 2);
    Guarded<float> difference(y, 3);
    blend(place, 0.3F, x, blended.view());
    running_mean(place, 0.9F, y, x, mean.view());
    subtract_scaled(place, x, 0.3F, difference.view(), difference.view());
    Guarded<float> moved(y, 4);
    subtract_difference(place, x, y, moved.view());
    std::vector<float> expected_moved;
    std::vector<float> expected_blend;
    std::vector<float> expected_mean;
    std::vector<float> expected_difference;
    for (std::size_t i = 0; i < n; ++i) {
      expected_blend.push_back((1.0F - 0.3F) * y[i] + 0.3F * x[i]);
      expected_mean.push_back(0.9F * y[i] + (1.0F - 0.9F) * x[i]);
      expected_difference.push_back(x[i] - 0.3F * y[i]);
      expected_moved.push_back(y[i] - (x[i] - y[i]));
    }
    EXPECT_EQ(bits_of(blended.values()), bits_of(expected_blend));
    EXPECT_EQ(bits_of(mean.values()), bits_of(expected_mean));
    EXPECT_EQ(bits_of(difference.values()), bits_of(expected_difference));
    EXPECT_EQ(bits_of(moved.values()), bits_of(expected_moved));
    EXPECT_TRUE(moved.intact() && blended.intact() && mean.intact() && difference.intact());
  });
}

TEST(Descent, ScalesAndFlagsWhatIsNotFinite) {
  for_each_case([&](Place& place, std::size_t n) {
    const auto x = normal_values(n, 1);
    const auto y = normal_values(n, 2);
    Guarded<float> scaled(y, 1);
    Guarded<float> difference(y, 3);
    Status status;
    scale(place, 0.7F, scaled.view());
    scaled_difference(place, 0.7F, x, difference.view(), difference.view(), view_of(status));  // `out` may be y
    std::vector<float> expected_scaled;
    std::vector<float> expected_difference;
    for (std::size_t i = 0; i < n; ++i) {
      expected_scaled.push_back(0.7F * y[i]);
      expected_difference.push_back(0.7F * x[i] - y[i]);
    }
    EXPECT_EQ(bits_of(scaled.values()), bits_of(expected_scaled));
    EXPECT_EQ(bits_of(difference.values()), bits_of(expected_difference));
    EXPECT_TRUE(scaled.intact() && difference.intact());
    EXPECT_EQ(status.nonfinite, 0U);
    if (n == 0) return;
    auto spoiled = x;
    spoiled[n - 1] = std::numeric_limits<float>::infinity();
    scaled_difference(place, 1.0F, spoiled, y, difference.view(), view_of(status));
    EXPECT_EQ(status.nonfinite, 1U);
  });
}

TEST(Descent, ViewsOfAnotherSizeAreRefused) {
  Place place({.threads = 1});
  std::vector<float> three(3);
  std::vector<float> two(2);
  const auto refused = message_of<InvalidConfig>([&] { blend(place, 0.5F, two, three); });
  EXPECT_TRUE(contains(refused, "has 2 entries, expected 3")) << refused;
}

}  // namespace
}  // namespace laconic::test
