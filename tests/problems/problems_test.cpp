// Every problem of the table: gradients against differences of the loss, optima, and data that depend on what they
// should and on nothing else.

#include "problems/problem.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "laconic/error.h"
#include "problems/functions.h"
#include "problems/quadratic.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::contains;
using test::message_of;

/// Settings that leave the gradients' noise out.
ProblemNumbers quiet(const ProblemRow& row) {
  ProblemNumbers settings;
  for (const ProblemSetting& setting : row.settings) {
    const std::string name = setting.name;
    if (name == "points") settings.emplace_back(name, 60);
    if (name == "dimension") settings.emplace_back(name, 20);
    if (name == "tensors") settings.emplace_back(name, 3);
    if (name == "skew" || name == "offset") settings.emplace_back(name, 0.5);
    if (name == "curved") settings.emplace_back(name, 5);
    if (name == "curvature") settings.emplace_back(name, 3);
    if (name == "noise" && row.name != std::string("linear-regression")) settings.emplace_back(name, 0);
  }
  return settings;
}

/// Near the start, but not on it; Vincent's curvature is mild near 5.
std::vector<float> some_point(const Problem& problem) {
  auto point = problem.start();
  const auto moves = test::normal_values(point.size(), 11);
  for (std::size_t i = 0; i < point.size(); ++i) point[i] += 0.25F * moves[i];
  return point;
}

class EveryProblem : public testing::TestWithParam<std::string> {
 protected:
  const ProblemRow& row() const { return problem_row(GetParam()); }
  std::unique_ptr<Problem> make(std::uint64_t seed = 3) const {
    return make_problem(GetParam(), quiet(row()), row().workers, seed);
  }
};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const ProblemRow& row : problem_table()) all.emplace_back(row.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Table, EveryProblem, testing::ValuesIn(names()),
                         [](const auto& each) { return test::test_name(each.param); });

TEST_P(EveryProblem, HasTheGradientOfItsLoss) {
  const auto problem = make();
  const auto point = some_point(*problem);
  const std::size_t n = point.size();
  std::vector<double> mean(n, 0.0);
  std::vector<float> gradient(n);
  double mean_loss = 0.0;
  for (int worker = 0; worker < problem->workers(); ++worker) {
    mean_loss += problem->gradient(worker, 0, point, gradient) / problem->workers();
    for (std::size_t i = 0; i < n; ++i) mean[i] += static_cast<double>(gradient[i]) / problem->workers();
  }
  const double loss = problem->loss(point);
  EXPECT_NEAR(mean_loss, loss, 1e-5 * std::max(1.0, std::abs(loss)));
  problem->shared_gradient(point, gradient);
  double scale = 1.0;
  for (const double value : mean) scale = std::max(scale, std::abs(value));
  // Steps are powers of two, so that the points differ by exactly twice the step; the toy bends within a hundredth.
  const double bend = std::sqrt(problem->smoothness().value_or(100.0));
  const auto step = static_cast<float>(std::ldexp(1.0, -8 - static_cast<int>(std::log2(std::max(1.0, bend)))));
  for (std::size_t i = 0; i < n; ++i) {
    const float middle = std::ldexp(std::round(std::ldexp(point[i], 14)), -14);
    auto here = point;
    here[i] = middle;
    auto up = here;
    auto down = here;
    up[i] = middle + step;
    down[i] = middle - step;
    ASSERT_EQ(up[i] - down[i], 2.0F * step);
    const double difference = (problem->loss(up) - problem->loss(down)) / (2.0 * static_cast<double>(step));
    EXPECT_NEAR(mean[i], difference, 2e-3 * scale) << "coordinate " << i;
    EXPECT_NEAR(mean[i], static_cast<double>(gradient[i]), 1e-5 * scale) << "shared, coordinate " << i;
  }
}

TEST_P(EveryProblem, KnowsItsOptimumWhereItSaysSo) {
  const auto problem = make();
  std::size_t registered = 0;
  for (const Tensor& tensor : problem->tensors()) registered += tensor.size;
  EXPECT_EQ(registered, problem->parameters());
  if (problem->optimum().empty()) {
    EXPECT_FALSE(problem->distance(problem->start()).has_value());
    return;
  }
  ASSERT_EQ(problem->optimum().size(), problem->parameters());
  const std::vector<float> optimum(problem->optimum().begin(), problem->optimum().end());
  EXPECT_LT(problem->distance(optimum).value(), 1e-5);
  std::vector<float> gradient(optimum.size());
  problem->shared_gradient(optimum, gradient);
  const double least = problem->loss(optimum);
  const double mu = problem->convexity().value();
  const double bend = problem->smoothness().value();
  EXPECT_GT(mu, 0.0);
  EXPECT_GE(bend, mu);
  // Between its two parabolas: what smoothness and convexity promise.
  for (std::uint64_t trial = 0; trial < 5; ++trial) {
    const auto way = test::normal_values(optimum.size(), 100 + trial);
    auto point = optimum;
    for (std::size_t i = 0; i < point.size(); ++i) point[i] += way[i];
    const double squared = std::pow(problem->distance(point).value(), 2.0);
    EXPECT_GE(problem->loss(point) - least, 0.5 * mu * squared * 0.999);
    EXPECT_LE(problem->loss(point) - least, 0.5 * bend * squared * 1.001);
  }
  for (const float value : gradient) EXPECT_NEAR(static_cast<double>(value), 0.0, 1e-5 * bend);
}

TEST_P(EveryProblem, IsAFunctionOfItsSeed) {
  const auto one = make(5);
  const auto same = make(5);
  const auto other = make(6);
  const auto point = some_point(*one);
  std::vector<float> first(point.size());
  std::vector<float> second(point.size());
  one->gradient(0, 7, point, first);
  same->gradient(0, 7, point, second);
  EXPECT_EQ(first, second);
  EXPECT_EQ(one->start(), same->start());
  if (GetParam() == "logistic-toy" || GetParam() == "vincent") return;  // have no random data
  other->gradient(0, 7, point, second);
  EXPECT_TRUE(first != second || one->start() != other->start());
}

TEST(LinearRegression, OptimumIsThePooledLeastSquares) {
  // The data once more, from the draws that the problem's file names: mean, truth, features, label noise.
  constexpr int kWorkers = 3;
  constexpr std::uint64_t kPoints = 30;
  constexpr std::uint64_t kN = 7;
  constexpr std::uint64_t kSeed = 9;
  const auto problem = make_problem("linear-regression", {{"points", kPoints}, {"dimension", kN}}, kWorkers, kSeed);
  std::vector<double> slope(kN, 0.0);
  double loss = 0.0;
  double size = 0.0;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    const RandomStream stream{kSeed, 0, worker, 0, Purpose::problem_data};
    const double mean = 5.0 * problems::normal(stream, 0);
    for (std::uint64_t point = 0; point < kPoints; ++point) {
      double error = -std::sqrt(0.5) * problems::normal(stream.of_tensor(3), point);
      for (std::uint64_t i = 0; i < kN; ++i) {
        const double truth = mean + problems::normal(stream.of_tensor(1), i);
        error += problems::normal(stream.of_tensor(2), point * kN + i) * (problem->optimum()[i] - truth);
      }
      for (std::uint64_t i = 0; i < kN; ++i) {
        slope[i] += error * problems::normal(stream.of_tensor(2), point * kN + i);
      }
      loss += error * error / (kWorkers * kPoints);
      size += std::abs(error);
    }
  }
  for (const double value : slope) EXPECT_NEAR(value, 0.0, 1e-10 * size);
  const std::vector<float> optimum(problem->optimum().begin(), problem->optimum().end());
  EXPECT_NEAR(problem->loss(optimum), loss, 1e-6 * loss);
}

TEST(LogisticToy, IsThePapers) {
  const auto problem = make_problem("logistic-toy", {}, 2, 1);
  EXPECT_EQ(problem->start(), (std::vector<float>{0.0F, 1.0F}));
  EXPECT_NEAR(problem->loss(problem->start()), 0.3133, 5e-5);
  std::vector<float> gradient(2);
  problem->gradient(0, 0, problem->start(), gradient);
  EXPECT_NEAR(gradient[0], -26.894, 1e-3);
  problem->gradient(1, 0, problem->start(), gradient);
  EXPECT_NEAR(gradient[0], 26.894, 1e-3);
  EXPECT_NEAR(gradient[1], -0.26894, 1e-5);
  EXPECT_TRUE(contains(message_of<InvalidConfig>([] { make_problem("logistic-toy", {}, 3, 1); }), "two workers"));
}

// 4,000 draws of deviation 100: their mean is off by more than 8 with a chance of 4e-7, their deviation by more than 6
// % with about the same.
TEST(NoisyQuadratic, HasItsNoiseWhereItIsTold) {
  const auto problem = make_problem("noisy-quadratic", {}, 2, 4);
  const auto& point = problem->start();
  std::vector<float> gradient(point.size());
  std::vector<float> other(point.size());
  double sum = 0.0;
  double squares = 0.0;
  double product = 0.0;
  constexpr int kSteps = 4000;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    problem->gradient(0, step, point, gradient);
    problem->gradient(1, step, point, other);
    const double noise = static_cast<double>(gradient[0] - point[0]);
    sum += noise / kSteps;
    squares += noise * noise / kSteps;
    product += noise * static_cast<double>(other[0] - point[0]) / kSteps;
    for (std::size_t i = 1; i < point.size(); ++i) ASSERT_EQ(gradient[i], point[i]);
  }
  EXPECT_NEAR(sum, 0.0, 8.0);
  EXPECT_NEAR(std::sqrt(squares), 100.0, 6.0);
  EXPECT_NEAR(product / squares, 0.0, 0.08);  // the workers' noise is their own
}

TEST(NoisyQuadratic, OffsetsCancel) {
  const auto problem = make_problem("noisy-quadratic", {{"offset", 2}, {"noise", 0}, {"dimension", 50}}, 5, 4);
  for (const double value : problem->optimum()) EXPECT_NEAR(value, 0.0, 1e-6);
  std::vector<float> gradient(50);
  const std::vector<float> zero(50, 0.0F);
  problem->gradient(2, 0, zero, gradient);
  double squares = 0.0;
  for (const float value : gradient) squares += static_cast<double>(value * value);
  EXPECT_GT(squares, 50.0);
}

TEST(NoisyQuadratic, CanBeGivenWhole) {
  Quadratic quadratic{{1.0F, 4.0F}, {0.0F, 0.0F}, {3.0F, -1.0F}, {{1.0F, 0.0F}, {-1.0F, 2.0F}}, {{"a", 1}, {"b", 1}}};
  const auto problem = make_quadratic(quadratic, 2, 1);
  EXPECT_EQ(problem->optimum(), (std::vector<double>{0.0, 1.0}));
  std::vector<float> gradient(2);
  EXPECT_EQ(problem->gradient(1, 0, problem->start(), gradient), 0.5 * (16.0 + 4.0 * 9.0));
  EXPECT_EQ(gradient, (std::vector<float>{4.0F, -12.0F}));
  quadratic.noise.pop_back();
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { make_quadratic(quadratic, 2, 1); }), "noise"));
}

TEST(LogisticRegression, BatchesAreDrawnFromTheWorkersPoints) {
  const ProblemNumbers settings{{"dimension", 5}, {"points", 40}};
  auto batched = settings;
  batched.emplace_back("batch", 8);
  const auto whole = make_problem("logistic-regression", settings, 2, 1);
  const auto some = make_problem("logistic-regression", batched, 2, 1);
  const std::vector<float> point(5, 0.3F);
  std::vector<float> exact(5);
  std::vector<float> drawn(5);
  whole->gradient(1, 0, point, exact);
  std::vector<double> mean(5, 0.0);
  constexpr int kSteps = 4000;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    some->gradient(1, step, point, drawn);
    EXPECT_NE(drawn, exact);
    for (std::size_t i = 0; i < 5; ++i) mean[i] += static_cast<double>(drawn[i]) / kSteps;
  }
  // An entry's deviation is below 0.4, its mean's below 0.0065: off by 0.035 with a chance below 1e-6.
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(mean[i], static_cast<double>(exact[i]), 0.035);
}

TEST(Vincent, IsFiniteEverywhere) {
  const auto problem = make_problem("vincent", {}, 4, 1);
  EXPECT_EQ(problem->start_of(0), (std::vector<float>{0.25F, 0.25F}));
  EXPECT_EQ(problem->start_of(1), (std::vector<float>{0.25F, 10.0F}));
  EXPECT_EQ(problem->start_of(2), (std::vector<float>{10.0F, 0.25F}));
  EXPECT_EQ(problem->start_of(3), (std::vector<float>{10.0F, 10.0F}));
  std::vector<float> gradient(2);
  for (const float x : {-3.0F, 0.0F, 0.25F, 10.0F, 50.0F}) {
    const std::vector<float> point{x, 1.0F};
    problem->gradient(0, 0, point, gradient);
    EXPECT_TRUE(std::isfinite(gradient[0]) && std::isfinite(problem->loss(point))) << x;
  }
  // The wide minimum at exp(π/20 + 2π·3/10) has the depth −1 in each coordinate.
  const auto deep = static_cast<float>(std::exp(M_PI / 20.0 + 0.6 * M_PI));
  EXPECT_NEAR(problem->loss(std::vector<float>{deep, deep}), -2.0, 1e-9);
}

TEST(Settings, AreRefusedWithTheirRange) {
  EXPECT_TRUE(contains(message_of<InvalidConfig>([] { make_problem("regression", {}, 1, 1); }), "linear-regression"));
  EXPECT_TRUE(contains(message_of<InvalidConfig>([] { make_problem("vincent", {{"nois", 1}}, 1, 1); }), "noise"));
  const auto negative = message_of<InvalidConfig>([] { make_problem("vincent", {{"noise", -1}}, 1, 1); });
  EXPECT_TRUE(contains(negative, "[0, ") && contains(negative, "-1")) << negative;
  EXPECT_TRUE(contains(message_of<InvalidConfig>([] {
                         make_problem("linear-regression", {{"points", 2.5}}, 1, 1);
                       }),
                       "whole"));
  EXPECT_TRUE(contains(message_of<InvalidConfig>([] {
                         make_problem("linear-regression", {{"points", 2}}, 1, 1);
                       }),
                       "more points"));
}

}  // namespace
}  // namespace laconic
