#include "kernels/sign/sign.h"

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

/// Some zeros of both signs among them, and subnormal values.
std::vector<float> values_with_zeros(std::size_t n) {
  auto values = normal_values(n, n + 5);
  for (std::size_t i = 0; i < n; i += 7) values[i] = i % 2 == 0 ? 0.0F : -0.0F;
  for (std::size_t i = 3; i < n; i += 11) values[i] = std::copysign(1e-42F, values[i]);
  return values;
}

TEST(Sign, BitsFollowTheValuesAtEveryLevel) {
  for (const std::size_t n : awkward_sizes()) {
    const auto values = values_with_zeros(n);
    std::vector<std::uint32_t> expected(sign_words(n), 0);
    for (std::size_t i = 0; i < n; ++i) {
      const bool minus = std::signbit(values[i]) && values[i] != 0.0F;
      expected[i / 32] |= static_cast<std::uint32_t>(minus) << i % 32;
    }
    for (const SimdLevel level : available_levels()) {
      for (const int threads : {1, 2, 3}) {
        Place place({.threads = threads, .simd = level});
        Guarded<float> input(values, n % 13);
        Guarded<std::uint32_t> words(sign_words(n), n % 5, 0xFFFF'FFFFU);
        Status status;
        pack_signs(place, input.view(), words.view(), view_of(status));
        ASSERT_TRUE(words.intact());
        ASSERT_EQ(words.values(), expected) << simd_name(level) << " n " << n << " threads " << threads;
        ASSERT_EQ(status.nonfinite, 0U);

        Guarded<float> back(n, n % 11);
        unpack_signs(place, words.view(), 0.5F, back.view());
        ASSERT_TRUE(back.intact());
        const auto unpacked = back.values();
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(unpacked[i], (expected[i / 32] >> i % 32 & 1U) != 0 ? -0.5F : 0.5F) << i;
        }
      }
    }
  }
}

TEST(Sign, BothZerosArePlus) {
  for (const SimdLevel level : available_levels()) {
    Place place({.threads = 1, .simd = level});
    std::vector<float> values(70, -0.0F);
    std::vector<std::uint32_t> words(3, 1);
    Status status;
    pack_signs(place, values, words, view_of(status));
    EXPECT_EQ(words, std::vector<std::uint32_t>(3, 0)) << simd_name(level);
  }
}

TEST(Sign, FindsWhatIsNotFiniteWhereverItStands) {
  for (const SimdLevel level : available_levels()) {
    Place place({.threads = 2, .simd = level});
    Place reference({.threads = 1, .simd = SimdLevel::reference});
    for (const std::size_t n : {1UL, 31UL, 33UL, 64UL, 70'001UL}) {
      for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
        for (const float bad : {kInfinity, -kInfinity, kNotANumber, -kNotANumber}) {
          auto values = normal_values(n, 3);
          values[at] = bad;
          std::vector<std::uint32_t> words(sign_words(n));
          std::vector<std::uint32_t> expected(sign_words(n));
          Status status;
          pack_signs(reference, values, expected, view_of(status));
          ASSERT_EQ(status.nonfinite, 1U);
          status = {};
          pack_signs(place, values, words, view_of(status));
          ASSERT_EQ(status.nonfinite, 1U) << simd_name(level) << " n " << n << " at " << at;
          ASSERT_EQ(words, expected);
        }
      }
    }
  }
}

TEST(Sign, LargestFiniteValuesAreFinite) {
  for (const SimdLevel level : available_levels()) {
    Place place({.threads = 1, .simd = level});
    const std::vector<float> values(100, -std::numeric_limits<float>::max());
    std::vector<std::uint32_t> words(4);
    Status status;
    pack_signs(place, values, words, view_of(status));
    EXPECT_EQ(status.nonfinite, 0U) << simd_name(level);
    EXPECT_EQ(words, (std::vector<std::uint32_t>{~0U, ~0U, ~0U, 0xF}));
  }
}

TEST(Sign, RefusesWrongSizes) {
  Place place({.threads = 1});
  std::vector<float> values(33);
  std::vector<std::uint32_t> words(1);
  Status status;
  const auto message = message_of<InvalidConfig>([&] { pack_signs(place, values, words, view_of(status)); });
  EXPECT_TRUE(contains(message, "words has 1 entries, expected 2")) << message;
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { unpack_signs(place, words, 1.0F, values); }), "expected 2"));
}

TEST(Sign, DoesNotAllocate) {
  for (const SimdLevel level : available_levels()) {
    Place place({.threads = 2, .simd = level});
    auto values = normal_values(100'000, 1);
    std::vector<std::uint32_t> words(sign_words(values.size()));
    Status status;
    pack_signs(place, values, words, view_of(status));
    const auto before = allocation_count();
    pack_signs(place, values, words, view_of(status));
    unpack_signs(place, words, 1.0F, values);
    EXPECT_EQ(allocation_count(), before) << simd_name(level);
  }
}

}  // namespace
}  // namespace laconic::test
