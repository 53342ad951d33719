// The functions that problems are made of: as exact as the library's, and the same bits on every machine.

#include "problems/functions.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "problems/linear_algebra.h"
#include "support/support.h"

namespace laconic::problems {
namespace {

void expect_close(double ours, double theirs, double x, const char* what) {
  EXPECT_NEAR(ours, theirs, 2e-15 * std::max(1.0, std::abs(theirs))) << what << " at " << x;
}

TEST(Functions, AgreeWithTheLibrary) {
  for (int i = -5000; i <= 5000; ++i) {
    const double x = i * 0.0131;
    const double positive = std::ldexp(1.0 + (i + 5000) / 10001.0, i / 20);
    expect_close(natural_log(positive), std::log(positive), positive, "log");
    EXPECT_NEAR(log_one_plus(positive) / std::log1p(positive), 1.0, 2e-15) << positive;
    EXPECT_NEAR(exponential(x) / std::exp(x), 1.0, 2e-15) << x;
    expect_close(sine(x), std::sin(x), x, "sin");
    expect_close(cosine(x), std::cos(x), x, "cos");
    expect_close(logistic(x), 1.0 / (1.0 + std::exp(-x)), x, "logistic");
    expect_close(soft_plus(x), std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))), x, "soft_plus");
  }
}

TEST(Functions, HaveTheirLimits) {
  EXPECT_EQ(exponential(0.0), 1.0);
  EXPECT_EQ(exponential(-1e300), 0.0);
  EXPECT_EQ(natural_log(1.0), 0.0);
  EXPECT_EQ(soft_plus(1e6), 1e6);
  EXPECT_EQ(soft_plus(-1e6), 0.0);
  EXPECT_EQ(logistic(1e6), 1.0);
  EXPECT_TRUE(std::isnan(exponential(std::nan(""))));
  EXPECT_TRUE(std::isnan(sine(1e300)));
}

// A million draws: the mean is off by more than 5e-3 with a chance of 6e-7, the variance by 7.1e-3 and the fourth
// moment by 5e-2 with about the same.
TEST(Normal, HasTheMomentsOfANormal) {
  const RandomStream stream{7, 0, 3, 1, Purpose::test};
  constexpr int kDraws = 1'000'000;
  double sums[5] = {};
  for (int i = 0; i < kDraws; ++i) {
    const double value = normal(stream, static_cast<std::uint64_t>(i));
    double power = 1.0;
    for (double& sum : sums) {
      sum += power / kDraws;
      power *= value;
    }
  }
  EXPECT_NEAR(sums[1], 0.0, 5e-3);
  EXPECT_NEAR(sums[2], 1.0, 7.1e-3);
  EXPECT_NEAR(sums[3], 0.0, 2e-2);
  EXPECT_NEAR(sums[4], 3.0, 5e-2);
}

// Bits, not numbers: data on another machine must be the same data.
TEST(Normal, IsTheSameOnEveryMachine) {
  std::uint64_t mixed = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const double value = normal({42, 5, 2, 9, Purpose::problem_data}, i);
    mixed = std::rotl(mixed, 7) ^ std::bit_cast<std::uint64_t>(value);
  }
  EXPECT_EQ(mixed, 17906916401189316788ULL);
}

TEST(Definite, SolvesAndKnowsItsEigenvalues) {
  // 2, 1 on the diagonals of a path: eigenvalues 2 + 2 cos(kπ/(n+1)).
  constexpr std::uint64_t kN = 5;
  std::vector<double> matrix(kN * kN, 0.0);
  for (std::uint64_t i = 0; i < kN; ++i) {
    matrix[i * kN + i] = 2.0;
    if (i + 1 < kN) matrix[i * kN + i + 1] = matrix[(i + 1) * kN + i] = 1.0;
  }
  const Definite definite(matrix, kN);
  const std::vector<double> right{1.0, -2.0, 3.0, -4.0, 5.0};
  const auto back = definite.times(definite.solve(right));
  for (std::uint64_t i = 0; i < kN; ++i) EXPECT_NEAR(back[i], right[i], 1e-12);
  EXPECT_NEAR(definite.largest_eigenvalue(), 2.0 + 2.0 * std::cos(M_PI / 6.0), 1e-6);
  EXPECT_NEAR(definite.smallest_eigenvalue(), 2.0 - 2.0 * std::cos(M_PI / 6.0), 1e-6);
}

TEST(Dot, IsASumOfProducts) {
  for (const std::uint64_t n : {0U, 1U, 15U, 16U, 17U, 100U, 257U}) {
    std::vector<float> a(n);
    std::vector<float> b(n);
    double exact = 0.0;
    for (std::uint64_t i = 0; i < n; ++i) {
      a[i] = static_cast<float>(static_cast<int>(i % 13) - 6);
      b[i] = static_cast<float>(static_cast<int>(i % 7) - 3);
      exact += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    EXPECT_EQ(static_cast<double>(dot(a.data(), b.data(), n)), exact) << n;
  }
}

}  // namespace
}  // namespace laconic::problems
