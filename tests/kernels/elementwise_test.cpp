#include "kernels/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "laconic/error.h"
#include "support/places.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::Guarded;
using test::for_each_place;
using test::normal_values;

/// Bits, so that -0 differs from 0; vectors of floats would say equal.
std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

TEST(Elementwise, FillAndCopyTouchTheirViewOnly) {
  for_each_place([](Place& place) {
    for (const std::size_t n : test::awkward_sizes()) {
      const auto values = normal_values(n, n);
      Guarded<float> to(n, n % 16);
      fill(place, -2.5F, to.view());
      EXPECT_EQ(to.values(), std::vector<float>(n, -2.5F)) << n;
      copy(place, values, to.view());
      EXPECT_EQ(bits_of(to.values()), bits_of(values)) << n;
      EXPECT_TRUE(to.intact()) << n;
    }
  });
}

TEST(Elementwise, AxpyRoundsProductAndSumSeparately) {
  for_each_place([](Place& place) {
    for (const std::size_t n : test::awkward_sizes()) {
      const auto x = normal_values(n, 1);
      const auto y = normal_values(n, 2);
      std::vector<float> expected(n);
      for (std::size_t i = 0; i < n; ++i) {
        volatile float product = 0.3F * x[i];  // volatile: rounded to float before the sum whatever the compiler thinks
        expected[i] = y[i] + product;
      }
      Guarded<float> out(y, 1 + n % 15);
      axpy(place, 0.3F, x, out.view());
      EXPECT_EQ(bits_of(out.values()), bits_of(expected)) << n;
      EXPECT_TRUE(out.intact()) << n;
    }
  });
}

TEST(Elementwise, DivideDivides) {
  for_each_place([](Place& place) {
    for (const std::size_t n : test::awkward_sizes()) {
      auto expected = normal_values(n, 3);
      Guarded<float> out(expected, 3);
      for (float& value : expected) value = value / 7.0F;
      divide(place, 7.0F, out.view());
      EXPECT_EQ(bits_of(out.values()), bits_of(expected)) << n;
      EXPECT_TRUE(out.intact()) << n;
    }
  });
}

TEST(Elementwise, SumsRunInRankOrderAndDivideOnce) {
  for (const std::size_t workers : {1U, 2U, 3U, 7U}) {
    for (const std::size_t n : test::awkward_sizes()) {
      std::vector<std::vector<float>> parts;
      std::vector<View<const float>> views;
      for (std::size_t rank = 0; rank < workers; ++rank) parts.push_back(normal_values(n, 10 + rank));
      for (const auto& part : parts) views.emplace_back(part);
      std::vector<float> expected(parts[0]);
      for (std::size_t rank = 1; rank < workers; ++rank) {
        for (std::size_t i = 0; i < n; ++i) expected[i] += parts[rank][i];
      }
      for (float& value : expected) value /= static_cast<float>(workers);
      for_each_place([&](Place& place) {
        Status status;
        Guarded<float> out(n, 5);
        sum_in_rank_order(place, views, static_cast<float>(workers), out.view(), view_of(status));
        EXPECT_EQ(bits_of(out.values()), bits_of(expected)) << workers << " workers, " << n;
        EXPECT_TRUE(out.intact());
        EXPECT_EQ(status.nonfinite, 0U);
      });
    }
  }
}

TEST(Elementwise, SumMayOverwriteAnyOfItsParts) {
  const std::size_t n = 70'001;
  for (std::size_t aliased = 0; aliased < 3; ++aliased) {
    for_each_place([&](Place& place) {
      std::vector<std::vector<float>> parts{normal_values(n, 1), normal_values(n, 2), normal_values(n, 3)};
      std::vector<float> expected(n);
      for (std::size_t i = 0; i < n; ++i) expected[i] = parts[0][i] + parts[1][i] + parts[2][i];
      const std::vector<View<const float>> views(parts.begin(), parts.end());
      Status status;
      sum_in_rank_order(place, views, 1.0F, parts[aliased], view_of(status));
      EXPECT_EQ(bits_of(parts[aliased]), bits_of(expected)) << aliased;
    });
  }
}

TEST(Elementwise, SumOfOnePartIsACopyBitForBit) {
  // Codecs use it to copy and to look for NaN at once: signalling NaNs and negative zeros must come through.
  std::vector<float> values = normal_values(100, 4);
  values[3] = -0.0F;
  values[64] = std::bit_cast<float>(0x7F80'0001U);
  values[99] = std::bit_cast<float>(0xFF80'1234U);
  for_each_place([&](Place& place) {
    Status status;
    std::vector<float> out(100);
    const std::vector<View<const float>> views{values};
    sum_in_rank_order(place, views, 1.0F, out, view_of(status));
    EXPECT_EQ(bits_of(out), bits_of(values));
    EXPECT_EQ(status.nonfinite, 1U);
  });
}

TEST(Elementwise, WeightedSumRoundsEachProduct) {
  const std::vector<float> weights{0.1F, 0.7F, 0.2F};
  for (const std::size_t n : test::awkward_sizes()) {
    const std::vector<std::vector<float>> parts{normal_values(n, 1), normal_values(n, 2), normal_values(n, 3)};
    const std::vector<View<const float>> views(parts.begin(), parts.end());
    std::vector<float> expected(n);
    for (std::size_t i = 0; i < n; ++i) {
      volatile float first = weights[0] * parts[0][i];
      volatile float second = weights[1] * parts[1][i];
      volatile float third = weights[2] * parts[2][i];
      volatile float sum = first + second;
      expected[i] = sum + third;
    }
    for_each_place([&](Place& place) {
      Status status;
      Guarded<float> out(n, 7);
      weighted_sum(place, views, weights, out.view(), view_of(status));
      EXPECT_EQ(bits_of(out.values()), bits_of(expected)) << n;
      EXPECT_TRUE(out.intact());
    });
  }
}

TEST(Elementwise, NonfiniteIsFoundWhereverItStands) {
  const float specials[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(), std::bit_cast<float>(0x7F80'0001U)};
  for_each_place([&](Place& place) {
    for (const std::size_t n : {1U, 17U, 65U, 131U}) {
      auto values = normal_values(n, 1);
      values[0] = std::numeric_limits<float>::max();
      Status sound;
      find_nonfinite(place, values, view_of(sound));
      EXPECT_EQ(sound.nonfinite, 0U);
      for (std::size_t i = 0; i < n; ++i) {
        for (const float special : specials) {
          const float before = std::exchange(values[i], special);
          Status found;
          find_nonfinite(place, values, view_of(found));
          EXPECT_EQ(found.nonfinite, 1U) << i << " of " << n;
          const std::vector<View<const float>> views{values, values};
          Status summed;
          std::vector<float> out(n);
          sum_in_rank_order(place, views, 2.0F, out, view_of(summed));
          EXPECT_EQ(summed.nonfinite, 1U) << i << " of " << n;
          const std::vector<float> weights{1.0F, 0.5F};
          Status weighted;
          weighted_sum(place, views, weights, out, view_of(weighted));
          EXPECT_EQ(weighted.nonfinite, 1U) << i << " of " << n;
          values[i] = before;
        }
      }
    }
  });
}

TEST(Elementwise, OverflowingSumIsFlagged) {
  const std::vector<float> large(33, std::numeric_limits<float>::max());
  const std::vector<View<const float>> views{large, large};
  for_each_place([&](Place& place) {
    Status status;
    std::vector<float> out(33);
    sum_in_rank_order(place, views, 2.0F, out, view_of(status));
    EXPECT_EQ(status.nonfinite, 1U);
  });
}

TEST(Elementwise, WrongSizesAreRefusedWithTheNumbers) {
  Place place({.threads = 1});
  std::vector<float> ten(10);
  std::vector<float> twelve(12);
  Status status;
  const auto text = test::message_of<InvalidConfig>([&] { axpy(place, 1.0F, ten, twelve); });
  EXPECT_TRUE(test::contains(text, "10 entries, expected 12")) << text;
  const std::span<const View<const float>> no_parts;
  const auto none = test::message_of<InvalidConfig>(
      [&] { sum_in_rank_order(place, no_parts, 1.0F, ten, view_of(status)); });
  EXPECT_TRUE(test::contains(none, "at least 1 part, got 0")) << none;
  EXPECT_THROW(copy(place, ten, twelve), InvalidConfig);
  EXPECT_THROW(copy(place, View<const float>(ten.data(), 10, Device::cuda), ten), InvalidConfig);
}

}  // namespace
}  // namespace laconic
