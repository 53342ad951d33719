// The shape of gradients: densities, energies and agreements that are known beforehand.

#include "torch/diagnose/geometry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "laconic/error.h"
#include "support/support.h"
#include "torch/diagnose/gradient_report.h"

namespace laconic {
namespace {

using Vector = std::vector<float>;
using test::contains;
using test::message_of;

double density_of(const Vector& values) { return density(View<const float>(values)); }

EnergyShares shares_of(const Vector& values) {
  Vector scratch;
  return energy_shares(View<const float>(values), scratch);
}

TEST(Density, OfOneEntryAloneIsOneOverTheDimension) {
  Vector values(1000);
  values[17] = -3.0F;
  EXPECT_DOUBLE_EQ(density_of(values), 1e-3);
}

TEST(Density, OfEntriesAlikeIsOne) {
  Vector values(1000, 0.25F);
  for (std::size_t i = 0; i < values.size(); i += 3) values[i] = -0.25F;
  EXPECT_DOUBLE_EQ(density_of(values), 1.0);
}

// One standard deviation is 0.0011 here: a sound density misses this band in one of 10^7 seeds.
TEST(Density, OfAGaussianIsTwoOverPi) {
  EXPECT_NEAR(density_of(test::normal_values(100000, 5)), 2.0 / std::numbers::pi, 0.006);
}

TEST(Density, OfNothingIsZero) {
  EXPECT_EQ(density_of({}), 0.0);
  EXPECT_EQ(density_of(Vector(7)), 0.0);
}

TEST(EnergyShares, AreThoseOfTheLargest) {
  // 2000 entries: 2 of 10, 18 of 3, 180 of 1, the others 0.1; some negative, none in order.
  Vector values(2000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float size = i < 2 ? 10.0F : i < 20 ? 3.0F : i < 200 ? 1.0F : 0.1F;
    values[i * 7 % 2000] = i % 2 == 0 ? size : -size;
  }
  const double all = 200.0 + 162.0 + 180.0 + 18.0;
  const EnergyShares shares = shares_of(values);
  EXPECT_NEAR(shares.top_thousandth, 200.0 / all, 1e-7);
  EXPECT_NEAR(shares.top_hundredth, 362.0 / all, 1e-7);
  EXPECT_NEAR(shares.top_tenth, 542.0 / all, 1e-7);
}

TEST(EnergyShares, TakeAtLeastOneEntry) {
  const EnergyShares shares = shares_of({3.0F, -4.0F});
  EXPECT_NEAR(shares.top_thousandth, 16.0 / 25.0, 1e-12);
  EXPECT_NEAR(shares.top_tenth, 16.0 / 25.0, 1e-12);
  EXPECT_DOUBLE_EQ(shares_of({2.0F}).top_hundredth, 1.0);
  EXPECT_EQ(shares_of(Vector(50)).top_tenth, 0.0);
  EXPECT_EQ(shares_of({}).top_tenth, 0.0);
}

TEST(Moments, AreThoseOfTheWholeSample) {
  Moments moments(2);
  for (const float value : {1.0F, 2.0F, 4.0F, 5.0F}) moments.add(View<const float>(Vector{value, 1e6F + value}));
  EXPECT_EQ(moments.count(), 4U);
  EXPECT_FLOAT_EQ(moments.mean()[0], 3.0F);
  EXPECT_FLOAT_EQ(moments.deviation()[0], std::sqrt(10.0F / 3.0F));
  EXPECT_FLOAT_EQ(moments.deviation()[1], std::sqrt(10.0F / 3.0F)) << "a large mean took the deviation's digits";
}

TEST(Moments, OfOneVectorHaveNoDeviation) {
  Moments moments(1);
  moments.add(View<const float>(Vector{2.0F}));
  EXPECT_EQ(moments.deviation(), Vector{0.0F});
}

SignAgreement agreement_of(const std::vector<Vector>& gradients, int workers) {
  SignAgreement signs(gradients.front().size(), workers);
  for (const Vector& gradient : gradients) signs.add(View<const float>(gradient));
  return signs;
}

TEST(SignAgreement, OfIdenticalWorkersIsWhole) {
  const Vector gradient = test::normal_values(100, 3);
  const SignAgreement signs = agreement_of({gradient, gradient, gradient}, 3);
  EXPECT_EQ(signs.majority(), 1.0);
  EXPECT_EQ(signs.unanimous(), 1.0);
  EXPECT_EQ(signs.silent(), 0.0);
}

TEST(SignAgreement, OfOppositeWorkersIsHalf) {
  const Vector gradient = test::normal_values(100, 3);
  Vector opposite = gradient;
  for (float& value : opposite) value = -value;
  const SignAgreement signs = agreement_of({gradient, opposite}, 2);
  EXPECT_EQ(signs.majority(), 0.5);
  EXPECT_EQ(signs.unanimous(), 0.0);
}

TEST(SignAgreement, CountsZeroAsPlusAndLeavesOutWhereAllAreZero) {
  // Coordinate 0: all 0. 1: +, 0, −. 2: 0, 0, −. 3: +, +, +.
  const SignAgreement signs =
      agreement_of({{0.0F, 1.0F, 0.0F, 1.0F}, {-0.0F, 0.0F, 0.0F, 1.0F}, {0.0F, -1.0F, -1.0F, 1.0F}}, 3);
  EXPECT_DOUBLE_EQ(signs.silent(), 0.25);
  EXPECT_DOUBLE_EQ(signs.unanimous(), 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(signs.majority(), (2.0 / 3.0 + 2.0 / 3.0 + 1.0) / 3.0);
}

TEST(SignAgreement, IsTheMeanOfSteps) {
  const SignAgreement signs = agreement_of({{1.0F}, {1.0F}, {1.0F}, {-1.0F}}, 2);
  EXPECT_DOUBLE_EQ(signs.majority(), 0.75);
  EXPECT_DOUBLE_EQ(signs.unanimous(), 0.5);
}

// 300,000 coordinates: a band of 0.003 is above five standard deviations.
TEST(SignAgreement, OfCoinsIsWhatChanceGives) {
  EXPECT_DOUBLE_EQ(majority_by_chance(1), 1.0);
  EXPECT_DOUBLE_EQ(majority_by_chance(2), 0.75);
  EXPECT_DOUBLE_EQ(majority_by_chance(3), 0.75);
  EXPECT_DOUBLE_EQ(majority_by_chance(4), 0.6875);
  EXPECT_DOUBLE_EQ(unanimous_by_chance(4), 0.125);
  std::vector<Vector> gradients;
  for (std::uint64_t worker = 0; worker < 4; ++worker) gradients.push_back(test::normal_values(300000, worker + 10));
  const SignAgreement signs = agreement_of(gradients, 4);
  EXPECT_NEAR(signs.majority(), majority_by_chance(4), 0.003);
  EXPECT_NEAR(signs.unanimous(), unanimous_by_chance(4), 0.003);
}

/// f = ½|x|², noise on the first `noisy` coordinates.
RunConfig quadratic(double noise, double noisy) {
  RunConfig config = default_config("noisy-quadratic");
  config.problem_settings = {{"dimension", 100}, {"noise", noise}, {"noisy", noisy}};
  config.workers = 4;
  return config;
}

GradientReport report_of(const RunConfig& config, const Vector& point, std::uint32_t batches) {
  const auto workload =
      problem_workload(make_problem(config.problem, config.problem_settings, config.workers, config.seed));
  return gradient_report(config, *workload, View<const float>(point), {.batches = batches});
}

TEST(GradientReport, SeesThatNoiseIsSparse) {
  const GradientReport report = report_of(quadratic(100.0, 1), Vector(100, 2.0F), 200);
  EXPECT_EQ(report.parameters, 100U);
  EXPECT_EQ(report.gradients, 800U);
  EXPECT_NEAR(report.noise_density, 0.01, 1e-9);
  // Noise of 100 on one coordinate, |g|² = 400: 25 mini-batches' worth. The estimate is within 15 % in 99.9 % of seeds.
  EXPECT_NEAR(report.noise_to_signal, 25.0, 5.0);
  EXPECT_NEAR(report.majority, 0.995, 0.003) << "99 coordinates agree, one tosses coins";
}

TEST(GradientReport, SeesADenseGradientWithoutNoise) {
  Vector point(100, 2.0F);
  const GradientReport report = report_of(quadratic(0.0, 1), point, 2);
  EXPECT_NEAR(report.gradient_density, 1.0, 1e-6);
  EXPECT_EQ(report.noise_density, 0.0);
  EXPECT_EQ(report.noise_to_signal, 0.0);
  EXPECT_EQ(report.doubt, 0.0);
  EXPECT_NEAR(report.gradient_norm, 20.0, 1e-4);
  EXPECT_NEAR(report.energy.top_tenth, 0.1, 1e-6);
  EXPECT_EQ(report.unanimous, 1.0);
}

TEST(GradientReport, SaysThatAMeanIsNoise) {
  const GradientReport report = report_of(quadratic(100.0, 0), Vector(100, 0.0F), 8);
  EXPECT_GT(report.doubt, 0.6);
  EXPECT_NEAR(report.noise_density, 1.0, 0.1);
}

TEST(GradientReport, RefusesWhatCannotBeMeasured) {
  RunConfig config = quadratic(1.0, 1);
  config.workers = 1;
  EXPECT_PRED2(contains, message_of<InvalidConfig>([&] { report_of(config, Vector(100), 1); }), "2 or more");
  Vector lost(100, 1.0F);
  lost[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_PRED2(contains, message_of<Error>([&] { report_of(config, lost, 4); }), "diverged");
}

}  // namespace
}  // namespace laconic
