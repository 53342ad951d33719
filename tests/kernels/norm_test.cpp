#include "kernels/norm/norm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "laconic/error.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

struct Norms {
  float l2 = -1.0F;
  float max = -1.0F;
  double squares = -1.0;
  std::uint32_t nonfinite = 0;
};

Norms norms_of(Place& place, View<const float> values) {
  Norms norms;
  Status status;
  norm(place, values, Norm::l2, {&norms.l2, 1}, view_of(status));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(status.norm), std::bit_cast<std::uint32_t>(norms.l2));
  norm(place, values, Norm::max, {&norms.max, 1}, view_of(status));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(status.norm), std::bit_cast<std::uint32_t>(norms.max));
  sum_of_squares(place, values, {&norms.squares, 1}, view_of(status));
  norms.nonfinite = status.nonfinite;
  return norms;
}

void expect_same(const Norms& a, const Norms& b, const char* level) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(a.l2), std::bit_cast<std::uint32_t>(b.l2)) << level;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(a.max), std::bit_cast<std::uint32_t>(b.max)) << level;
  EXPECT_EQ(std::bit_cast<std::uint64_t>(a.squares), std::bit_cast<std::uint64_t>(b.squares)) << level;
  EXPECT_EQ(a.nonfinite, b.nonfinite) << level;
}

/// The tree of norm.h in another shape: recursive, one entry at a time.
double tree(const std::vector<double>& sums, std::size_t begin, std::size_t stride) {
  if (stride == 16) return sums[begin];
  return tree(sums, begin, stride * 2) + tree(sums, begin + stride, stride * 2);
}

double modelled_squares(const std::vector<float>& values) {
  double total = 0.0;
  for (std::size_t block = 0; block < values.size(); block += 8192) {
    std::vector<double> sums(16, 0.0);
    for (std::size_t lane = 0; lane < 16; ++lane) {
      for (std::size_t i = block + lane; i < std::min(block + 8192, values.size()); i += 16) {
        sums[lane] += static_cast<double>(values[i]) * values[i];
      }
    }
    total += tree(sums, 0, 1);
  }
  return total;
}

TEST(Norm, ReferenceFollowsTheTree) {
  Place place({.threads = 1, .simd = SimdLevel::reference});
  for (const std::size_t n : awkward_sizes()) {
    const auto values = normal_values(n, n + 1);
    const Norms norms = norms_of(place, values);
    const double expected = modelled_squares(values);
    ASSERT_EQ(norms.squares, expected) << n;
    ASSERT_EQ(norms.l2, static_cast<float>(std::sqrt(expected))) << n;
    float largest = 0.0F;
    for (const float value : values) largest = std::max(largest, std::fabs(value));
    ASSERT_EQ(norms.max, largest) << n;
    ASSERT_EQ(norms.nonfinite, 0U);
  }
}

TEST(Norm, EveryLevelAndThreadCountGivesTheSameBits) {
  Place reference({.threads = 1, .simd = SimdLevel::reference});
  for (const std::size_t n : awkward_sizes()) {
    Guarded<float> values(normal_values(n, n), n % 13);
    const Norms expected = norms_of(reference, values.view());
    for (const SimdLevel level : available_levels()) {
      for (const int threads : {1, 2, 3}) {
        Place place({.threads = threads, .simd = level});
        expect_same(norms_of(place, values.view()), expected, simd_name(level));
      }
    }
    ASSERT_TRUE(values.intact());
  }
}

TEST(Norm, FindsWhatIsNotFiniteWhereverItStands) {
  Place reference({.threads = 1, .simd = SimdLevel::reference});
  for (const SimdLevel level : available_levels()) {
    Place place({.threads = 2, .simd = level});
    for (const std::size_t n : {1UL, 17UL, 40UL, 8193UL, 50'001UL}) {
      for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
        for (const float bad : {kInfinity, -kInfinity, kNotANumber, -kNotANumber}) {
          auto values = normal_values(n, 3);
          values[at] = bad;
          const Norms norms = norms_of(place, values);
          ASSERT_EQ(norms.nonfinite, 1U) << simd_name(level) << " n " << n << " at " << at;
          ASSERT_EQ(std::isnan(norms.l2), std::isnan(bad));
          ASSERT_EQ(std::isnan(norms.max), std::isnan(bad));
          expect_same(norms, norms_of(reference, values), simd_name(level));
        }
      }
    }
  }
}

TEST(Norm, OverflowOfTheNormItselfIsReported) {
  for (const SimdLevel level : available_levels()) {
    Place place({.threads = 1, .simd = level});
    const std::vector<float> values(100, std::numeric_limits<float>::max());
    Status status;
    float result = 0.0F;
    norm(place, values, Norm::max, {&result, 1}, view_of(status));
    EXPECT_EQ(status.nonfinite, 0U);
    EXPECT_EQ(result, std::numeric_limits<float>::max());
    double squares = 0.0;
    sum_of_squares(place, values, {&squares, 1}, view_of(status));
    EXPECT_EQ(status.nonfinite, 0U) << "the sum itself fits float64";
    norm(place, values, Norm::l2, {&result, 1}, view_of(status));
    EXPECT_EQ(status.nonfinite, 1U);
    EXPECT_EQ(result, kInfinity);
  }
}

TEST(Norm, SubnormalValuesCount) {
  for (const SimdLevel level : available_levels()) {
    Place place({.threads = 1, .simd = level});
    const std::vector<float> values(400, std::numeric_limits<float>::denorm_min());
    const Norms norms = norms_of(place, values);
    EXPECT_EQ(norms.max, std::numeric_limits<float>::denorm_min());
    EXPECT_EQ(norms.l2, 20 * std::numeric_limits<float>::denorm_min());
  }
}

TEST(Norm, RefusesWrongViewsAndKeepsFlags) {
  Place place({.threads = 1});
  std::vector<float> values(4, 1.0F);
  std::vector<float> results(2);
  Status status;
  status.nonfinite = 1;
  const auto message = message_of<InvalidConfig>([&] { norm(place, values, Norm::l2, results, view_of(status)); });
  EXPECT_TRUE(contains(message, "result has 2 entries, expected 1")) << message;
  norm(place, values, Norm::l2, {results.data(), 1}, view_of(status));
  EXPECT_EQ(results[0], 2.0F);
  EXPECT_EQ(status.nonfinite, 1U) << "flags are sticky";
}

TEST(Norm, DoesNotAllocateAfterTheFirstCall) {
  for (const SimdLevel level : available_levels()) {
    Place place({.threads = 2, .simd = level});
    const auto values = normal_values(100'000, 1);
    norms_of(place, values);
    const auto before = allocation_count();
    norms_of(place, values);
    EXPECT_EQ(allocation_count(), before) << simd_name(level);
  }
}

}  // namespace
}  // namespace laconic::test
