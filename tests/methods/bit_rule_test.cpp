// DQ-SGD's choice of bits against its page: the rules' formulas, widths at exact powers of two, and budgets that are
// kept whatever the norms do.

#include "methods/bit_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "laconic/error.h"
#include "methods/table.h"
#include "support/support.h"

namespace laconic::test {
namespace {

Settings rule_settings(const MethodOptions& options) { return {"dqsgd", method_row("dqsgd").parameters, options}; }

/// The widths of a run whose norms are these.
std::vector<int> widths_of(const MethodOptions& options, const std::vector<double>& norms) {
  BitRule rule(rule_settings(options), 1000);
  std::vector<int> widths;
  for (const double norm : norms) {
    widths.push_back(rule.bits(norm));
    rule.spent(widths.back(), norm);
  }
  return widths;
}

double mean(const std::vector<int>& widths) {
  return std::accumulate(widths.begin(), widths.end(), 0.0) / static_cast<double>(widths.size());
}

constexpr std::size_t kSteps = 600;

struct Trajectory {
  const char* name;
  std::vector<double> norms;
};

template <class Norm>
Trajectory trajectory(const char* name, Norm&& norm) {
  std::vector<double> norms;
  for (std::size_t n = 0; n < kSteps; ++n) norms.push_back(norm(static_cast<double>(n)));
  return {name, norms};
}

/// Norms that wander over four orders of magnitude from step to step.
std::vector<double> restless_norms() {
  std::vector<double> norms;
  for (const float value : normal_values(kSteps, 5)) norms.push_back(std::exp(1.5 * static_cast<double>(value)));
  return norms;
}

std::vector<Trajectory> trajectories() {
  const auto after = [](double n, double steps, double norm) { return n < steps ? 0.0 : norm; };
  return {trajectory("constant", [](double) { return 3.0; }),
          trajectory("decaying", [](double n) { return 20.0 * std::exp(-n / 150.0) + 0.3; }),
          trajectory("steep", [](double n) { return 1e3 * std::exp(-n / 30.0) + 1e-3; }),
          trajectory("growing", [](double n) { return 1e-2 * std::exp(n / 100.0); }),
          {"restless", restless_norms()},
          trajectory("one step of three is zero", [](double n) { return std::fmod(n, 3.0) == 0.0 ? 0.0 : 700.0; }),
          trajectory("zero at first", [&](double n) { return after(n, 200.0, 1e4 * std::exp(-n / 150.0)); }),
          trajectory("zero at last", [&](double n) { return after(kSteps - n, 200.0, 5.0); }),
          trajectory("zero", [](double) { return 0.0; })};
}

MethodOptions convex_options(double total_steps) {
  return {.rule = "convex", .smoothness = 2, .convexity = 0.5, .step_size = 0.1, .total_steps = total_steps};
}
const double kAlpha = 1 - 2 * 0.5 * 0.1 + 2 * 0.5 * 0.01;

TEST(BitRule, NonConvexIsThePagesFormula) {
  const BitRule rule(rule_settings({.tau = 6}), 1000);
  for (const double norm : {0.01, 0.5, 1.0, 3.0, 40.0}) {
    const double exact = std::log2(6.0 * norm + 1.0) + 1.0;
    EXPECT_EQ(rule.bits(norm), static_cast<int>(std::clamp(std::ceil(exact), 2.0, 16.0))) << norm;
  }
  EXPECT_EQ(rule.bits(0.0), 2);
  EXPECT_EQ(rule.bits(1e9), 16);
  EXPECT_EQ(BitRule(rule_settings({}), 1000).bits(3.0), rule.bits(3.0)) << "tau is 6 by default";
}

TEST(BitRule, AWidthEndsExactlyWhereItsLevelsDo) {
  for (const double tau : {1.0, 3.0, 0.1875, 12.0}) {
    const BitRule rule(rule_settings({.tau = tau}), 1000);
    for (int bits = 3; bits <= 15; bits += 2) {
      // 2^(bits−1) − 1 is a multiple of 3 here, so that tau·norm is exact.
      const double norm = (std::ldexp(1.0, bits - 1) - 1.0) / tau;
      EXPECT_EQ(rule.bits(norm), bits) << "tau " << tau;
      EXPECT_EQ(rule.bits(norm * (1.0 - 0x1p-52)), bits) << "tau " << tau;
      EXPECT_EQ(rule.bits(norm * (1.0 + 0x1p-52)), bits + 1) << "tau " << tau;
    }
  }
}

TEST(BitRule, ConvexFallsWithAlpha) {
  MethodOptions options = convex_options(100);
  options.kappa = 4000;
  BitRule rule(rule_settings(options), 1000);
  for (int n = 0; n < 100; ++n) {
    const double norm = 2.0;
    const double exact = std::log2(4000.0 * std::pow(kAlpha, (100 - n) / 2.0) * norm + 1.0) + 1.0;
    const int bits = rule.bits(norm);
    EXPECT_EQ(bits, static_cast<int>(std::clamp(std::ceil(exact), 2.0, 16.0))) << n;
    rule.spent(bits, norm);
  }
}

TEST(BitRule, ConvexStaysAtItsLastWidthPastTheEnd) {
  MethodOptions options = convex_options(10);
  options.kappa = 10;
  // α^((N−n)/2) would be infinite after 16,000 steps, and times a norm of zero no number at all.
  const std::vector<double> norms(20'000, 2.0);
  const auto widths = widths_of(options, norms);
  for (std::size_t n = 10; n < widths.size(); ++n) ASSERT_EQ(widths[n], 6) << "log2(20 + 1) + 1, step " << n;
  BitRule rule(rule_settings(options), 1000);
  for (const double norm : norms) rule.spent(6, norm);
  EXPECT_EQ(rule.bits(0.0), 2);
}

TEST(BitRule, ConvexTakesARunSoLongThatItsFactorVanishes) {
  MethodOptions options = convex_options(1e12);
  options.kappa = 1e30;
  EXPECT_EQ(BitRule(rule_settings(options), 1000).bits(1e30), 2);
}

TEST(BitRule, ErrorBudgetGivesTau) {
  const double tau = std::sqrt(2.0 * 1000 * 0.1 / (6 * (2 - 2 * 0.1) * 0.5));
  const BitRule budget(rule_settings({.error_budget = 0.5, .smoothness = 2, .step_size = 0.1}), 1000);
  const BitRule given(rule_settings({.tau = tau}), 1000);
  for (const double norm : {0.1, 1.0, 10.0}) EXPECT_EQ(budget.bits(norm), given.bits(norm)) << norm;
}

TEST(BitRule, ErrorBudgetGivesKappa) {
  MethodOptions options = convex_options(100);
  options.error_budget = 0.5;
  BitRule budget(rule_settings(options), 1000);
  options.error_budget.reset();
  options.kappa = std::sqrt(100 * 2.0 * 1000 * 0.01 / (12 * 0.5));
  BitRule given(rule_settings(options), 1000);
  for (int n = 0; n < 100; ++n) {
    const double norm = 300.0 * std::exp(-n / 30.0);
    const int bits = budget.bits(norm);
    EXPECT_EQ(bits, given.bits(norm)) << n;
    budget.spent(bits, norm);
    given.spent(bits, norm);
  }
}

class BitBudget : public testing::TestWithParam<double> {};
INSTANTIATE_TEST_SUITE_P(Bits, BitBudget, testing::Values(2.0, 2.25, 2.5, 3.0, 4.0, 6.5, 8.0, 12.0, 15.5, 16.0));

TEST_P(BitBudget, IsKeptWhateverTheNormsDo) {
  for (const Trajectory& each : trajectories()) {
    const MethodOptions options{.bit_budget = GetParam(), .total_steps = kSteps};
    EXPECT_NEAR(mean(widths_of(options, each.norms)), GetParam(), 0.05) << each.name;
  }
}

TEST_P(BitBudget, IsKeptUnderTheConvexRule) {
  for (const Trajectory& each : trajectories()) {
    MethodOptions options = convex_options(kSteps);
    options.convexity = 0.05;
    options.bit_budget = GetParam();
    EXPECT_NEAR(mean(widths_of(options, each.norms)), GetParam(), 0.05) << each.name;
  }
}

// A run without a known end may be ahead of its budget, or behind it, by what the steps of one window can make up for.
TEST_P(BitBudget, IsKeptWithinAWindowWithoutAKnownEnd) {
  for (const Trajectory& each : trajectories()) {
    const double spent = kSteps * mean(widths_of({.bit_budget = GetParam()}, each.norms));
    EXPECT_LE(spent, kSteps * GetParam() + 50 * (GetParam() - 2.0) + 1.0) << each.name;
    EXPECT_GE(spent, kSteps * GetParam() - 50 * (16.0 - GetParam()) - 1.0) << each.name;
  }
}

TEST_P(BitBudget, GivesALargerNormNoFewerBits) {
  BitRule rule(rule_settings({.bit_budget = GetParam(), .total_steps = kSteps}), 1000);
  for (const double norm : restless_norms()) {
    for (int exponent = -20; exponent < 20; ++exponent) {
      ASSERT_LE(rule.bits(std::ldexp(1.0, exponent)), rule.bits(std::ldexp(1.0, exponent + 1)));
    }
    rule.spent(rule.bits(norm), norm);
  }
}

// The page knows all norms beforehand: log2 κ = b − 1 − mean of log2‖g‖, B = log2(κ‖g‖ + 1) + 1. A run learns them on its
// way, so that the first and the last hundred steps may differ; between them only rounding does, and a little drift.
TEST(BitRule, ABitBudgetFollowsThePagesFactor) {
  for (const double budget : {5.0, 6.5, 8.0}) {
    std::vector<double> norms;
    for (const double norm : restless_norms()) norms.push_back(100.0 * std::sqrt(norm));
    double mean_log = 0.0;
    for (const double norm : norms) mean_log += std::log2(norm) / kSteps;
    const double kappa = std::pow(2.0, budget - 1.0 - mean_log);
    const auto widths = widths_of({.bit_budget = budget, .total_steps = kSteps}, norms);
    for (std::size_t n = 100; n < kSteps - 100; ++n) {
      ASSERT_NEAR(widths[n], std::log2(kappa * norms[n] + 1.0) + 1.0, 1.0) << "budget " << budget << " step " << n;
    }
  }
}

TEST(BitRule, StepsOfNormZeroTellNothingOfTheNormsScale) {
  for (const char* rule : {"nonconvex", "convex"}) {
    MethodOptions options{.bit_budget = 6.0, .total_steps = kSteps};
    if (std::string_view(rule) == "convex") options = convex_options(kSteps), options.bit_budget = 6.0;
    const auto widths = widths_of(options, {0.0, 0.0, 0.0, 1024.0, 1024.0, 1024.0, 0.0, 1024.0});
    // A norm like the ones before has the budget's width; counted as log2‖g‖ = 0, the zeros would make it 12 or more.
    EXPECT_EQ(widths, (std::vector<int>{2, 2, 2, 6, 6, 6, 2, 6})) << rule;
  }
}

TEST(BitRule, SaysWhatIsMissing) {
  EXPECT_TRUE(contains(message_of<InvalidConfig>([] { BitRule(rule_settings({.rule = "convex"}), 10); }),
                       "total_steps must be given"));
  EXPECT_TRUE(contains(message_of<InvalidConfig>([] { BitRule(rule_settings({.tau = 1, .bit_budget = 4}), 10); }),
                       "give one of"));
  EXPECT_TRUE(contains(message_of<InvalidConfig>([] { BitRule(rule_settings({.kappa = 1}), 10); }), "give tau"));
}

TEST(BitRule, RefusesAnErrorBudgetThatGivesNoFiniteFactor) {
  const auto of = [](const MethodOptions& options) {
    return message_of<InvalidConfig>([&] { BitRule(rule_settings(options), 1000); });
  };
  const auto tiny = of({.error_budget = 1e-310, .smoothness = 1e30, .step_size = 1e-30});
  EXPECT_TRUE(contains(tiny, "error_budget") && contains(tiny, "got 1e-310")) << tiny;
  const auto long_step = of({.error_budget = 1, .smoothness = 2, .step_size = 1});
  EXPECT_TRUE(contains(long_step, "step_size must be below 2/smoothness, got 1")) << long_step;
}

}  // namespace
}  // namespace laconic::test
