// Quantizers are unbiased in every entry. All bounds are Bernstein's, for the variance that the page's two levels have,
// and all checks of a test together raise a false alarm in one of a million choices of seeds (kFalseAlarm).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/statistics.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr std::uint32_t kSteps = 20'000;

struct Case {
  const char* method;
  MethodOptions options;
  double levels;
  bool max_norm = false;
  bool by_tensor = true;
  bool twice = false;  ///< the sum is rounded a second time on its way back
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.method << " with " << one.levels << " levels"; }

/// Every case sees the same two tensors; norms are the page's.
const std::vector<Tensor> kTensors{{"first", 150}, {"second", 50}};

std::vector<float> gradient() {
  auto values = normal_values(200, 5);
  for (std::size_t i = 150; i < values.size(); ++i) values[i] *= 8.0F;
  values[3] = 0.0F;
  values[4] = 1e-4F;  // a chance of one in 100,000 at two bits
  return values;
}

/// The distance between two neighbouring levels, entry by entry.
std::vector<double> units_of(const std::vector<float>& values, const Case& one) {
  std::vector<double> units;
  std::size_t begin = 0;
  std::vector<std::size_t> ends{200};
  if (one.by_tensor) ends = {150, 200};
  if (one.options.scope == "chunk") ends = {64, 128, 192, 200};
  for (const std::size_t end : ends) {
    double norm = 0.0;
    for (std::size_t i = begin; i < end; ++i) {
      const auto wide = std::abs(static_cast<double>(values[i]));
      norm = one.max_norm ? std::max(norm, wide) : std::hypot(norm, wide);
    }
    units.resize(end, norm / one.levels);
    begin = end;
  }
  return units;
}

class Unbiased : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    Quantizers, Unbiased,
    testing::Values(
        Case{"qsgd", {.bits = 2}, 1}, Case{"qsgd", {.bits = 4}, 7}, Case{"qsgd", {.bits = 12}, 2047},
        Case{"qsgd", {.scope = "model", .bits = 3}, 3, false, false}, Case{"qsgd", {.bits = 3, .norm = "max"}, 3, true},
        Case{"qsgd", {.route = "scatter", .return_ = "requantized", .bits = 3, .norm = "max"}, 3, true, true, true},
        Case{"qsgd", {.scope = "chunk", .chunk = 64, .bits = 3}, 3, true},
        Case{"terngrad", {}, 1, true}, Case{"terngrad", {.scope = "model"}, 1, true, false},
        Case{"dqsgd", {.tau = 1e-9}, 1}, Case{"dqsgd", {.tau = 0.1, .norm_source = "exact"}, 7},
        Case{"dqsgd", {.norm = "max", .tau = 1e-9, .norm_source = "aggregate"}, 1, true}),
    [](const auto& test) { return std::string(test.param.method) + "_" + std::to_string(test.index); });

TEST_P(Unbiased, InEveryEntry) {
  const Case& one = GetParam();
  run_ranks(1, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method(one.method, one.options, communicator, place);
    method->register_tensors(kTensors);
    const auto values = gradient();
    const std::size_t n = values.size();
    std::vector<double> sum(n, 0.0);
    std::vector<float> sent(n);
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      sent = values;
      ASSERT_EQ(method->reduce({6, step, 0}, sent).bits, std::log2(one.levels + 1.0) + 1.0);
      for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(sent[i]);
    }
    const auto units = units_of(values, one);
    const double chance = chance_of_one(static_cast<double>(n + 1));
    double error = 0.0;
    double variance = 0.0;
    int telling = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto x = static_cast<double>(values[i]);
      const double r = std::abs(x) / units[i];
      const double up = r - std::floor(r);
      // Twice rounded: by the largest sum's norm, so its units are no larger.
      const double once = kSteps * units[i] * units[i] * (one.twice ? 0.5 : up * (1.0 - up));
      const double allowed = bernstein(once, one.twice ? 2.0 * units[i] : units[i], chance);
      const double rounding = 1e-6 * kSteps * std::abs(x);
      EXPECT_LE(std::abs(sum[i] - kSteps * x), allowed + rounding) << "entry " << i << ", up with " << up;
      if (allowed < 0.5 * kSteps * std::abs(x)) ++telling;
      // All entries together, each in its own units: away from zero or towards it.
      error += (sum[i] - kSteps * x) / units[i] * (x < 0.0 ? -1.0 : 1.0);
      variance += once / (units[i] * units[i]);
    }
    EXPECT_LE(std::abs(error), bernstein(variance, one.twice ? 2.0 : 1.0, chance) + 1e-6 * kSteps * one.levels * n);
    // A method that sent zeros, or half of what it should, would be seen in most entries.
    EXPECT_GE(telling, 120) << "entries in which the bound says something";
  });
}

// With an l2 norm over millions of entries most chances lie far below 2^-16, which a draw of 16 bits would silence.
// Here 2^-18 for each of 100,000 entries and 400 steps: 153 are expected.
TEST(UnbiasedTest, SeldomLevelsComeAsOftenAsTheyShould) {
  run_ranks(1, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method("terngrad", {}, communicator, place);
    constexpr std::size_t kEntries = 100'000;
    constexpr std::uint32_t kRepeats = 400;
    std::vector<float> values(kEntries + 1, std::ldexp(1.0F, -18));
    values[0] = 1.0F;
    double seen = 0.0;
    for (std::uint32_t step = 0; step < kRepeats; ++step) {
      auto sent = values;
      method->reduce({7, step, 0}, sent);
      ASSERT_EQ(sent[0], 1.0F);
      seen += static_cast<double>(std::count(sent.begin() + 1, sent.end(), 1.0F));
    }
    const double expected = std::ldexp(double{kRepeats} * kEntries, -18);
    const double allowed = bernstein(expected, 1.0, kFalseAlarm);
    ASSERT_LT(allowed, 0.7 * expected) << "the bound must tell them from none";
    EXPECT_LE(std::abs(seen - expected), allowed);
  });
}

}  // namespace
}  // namespace laconic::test
