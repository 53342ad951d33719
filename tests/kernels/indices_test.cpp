#include "kernels/sparse/indices.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "support/places.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::Guarded;
using test::for_each_thread_count;
using Indices = std::vector<std::uint32_t>;

Indices random_indices(std::uint64_t count, std::uint64_t first, std::uint64_t size, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  Indices indices;
  for (std::uint64_t i = 0; i < count; ++i) indices.push_back(static_cast<std::uint32_t>(first + engine() % size));
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

struct Case {
  std::uint64_t first;
  std::uint64_t size;
  Indices indices;
};

std::vector<Case> cases() {
  std::vector<Case> all{{0, 0, {}}, {0, 1, {}}, {0, 1, {0}}, {7, 1, {7}}, {5, 10, {5, 14}}, {0, 33, {0, 31, 32}}};
  const std::uint64_t end = std::uint64_t{1} << 32;
  all.push_back({0, 0xFFFF'FFFFU, {0, 0xFFFF'FFFEU}});
  all.push_back({end - 3, 3, {0xFFFF'FFFDU, 0xFFFF'FFFFU}});
  for (const std::uint64_t count : {511U, 512U, 513U, 1025U, 100'000U, 900'000U}) {
    all.push_back({1000, 2'000'003, random_indices(count, 1000, 2'000'003, count)});
  }
  Indices dense(70'000);
  for (std::uint32_t i = 0; i < dense.size(); ++i) dense[i] = 3 + i;
  all.push_back({3, 70'000, dense});
  return all;
}

TEST(IndexKernels, GapsAreDistancesAndComeBack) {
  for (const Case& each : cases()) {
    const std::uint64_t first = each.first;
    const std::uint64_t size = each.size;
    const Indices& indices = each.indices;
    for_each_thread_count([&](Place& place) {
      const std::size_t groups = (indices.size() + kGapGroup - 1) / kGapGroup;
      Guarded<std::uint32_t> gaps(indices.size(), 3);
      Guarded<std::uint8_t> widths(groups, 1);
      ASSERT_EQ(gaps_of_indices(place, indices, first, size, gaps.view(), widths.view()), indices.size());
      std::uint64_t least = first;
      std::vector<std::uint32_t> most(groups, 0);
      for (std::size_t i = 0; i < indices.size(); ++i) {
        ASSERT_EQ(gaps.view()[i], indices[i] - least) << i;
        most[i / kGapGroup] = std::max(most[i / kGapGroup], gaps.view()[i]);
        least = std::uint64_t{indices[i]} + 1;
      }
      for (std::size_t group = 0; group < groups; ++group) ASSERT_EQ(widths.view()[group], std::bit_width(most[group]));
      ASSERT_TRUE(indices_of_gaps(place, first, size, gaps.view()));
      EXPECT_EQ(gaps.values(), indices);
      EXPECT_TRUE(gaps.intact() && widths.intact());
    });
  }
}

TEST(IndexKernels, RawAndBitmapComeBack) {
  for (const Case& each : cases()) {
    const std::uint64_t first = each.first;
    const std::uint64_t size = each.size;
    const Indices& indices = each.indices;
    if (size > 10'000'000) continue;  // half a gigabyte of bitmap proves nothing more
    for_each_thread_count([&](Place& place) {
      Guarded<std::uint32_t> relative(indices.size(), 3);
      Guarded<std::uint32_t> back(indices.size(), 5);
      indices_from_first(place, indices, first, relative.view());
      ASSERT_TRUE(indices_of_relative(place, relative.view(), first, size, back.view()));
      EXPECT_EQ(back.values(), indices);
      Guarded<std::uint32_t> words((size + 31) / 32, 7, 0xFFFF'FFFFU);
      bitmap_of_indices(place, indices, first, words.view());
      std::uint64_t bits = 0;
      for (const std::uint32_t word : words.values()) bits += static_cast<std::uint64_t>(std::popcount(word));
      EXPECT_EQ(bits, indices.size());
      ASSERT_TRUE(indices_of_bitmap(place, words.view(), first, size, back.view()));
      EXPECT_EQ(back.values(), indices);
      EXPECT_TRUE(relative.intact() && words.intact() && back.intact());
    });
  }
}

TEST(IndexKernels, WrongIndicesAreFoundByPosition) {
  for_each_thread_count([](Place& place) {
    auto indices = random_indices(50'000, 100, 1'000'000, 1);
    std::vector<std::uint32_t> gaps(indices.size());
    std::vector<std::uint8_t> widths((indices.size() + kGapGroup - 1) / kGapGroup);
    for (const std::size_t position : {std::size_t{1}, std::size_t{512}, std::size_t{25'088}, indices.size() - 1}) {
      const std::uint32_t before = std::exchange(indices[position], indices[position - 1]);
      EXPECT_EQ(gaps_of_indices(place, indices, 100, 1'000'000, gaps, widths), position);
      EXPECT_FALSE(indices_of_relative(place, indices, 0, 2'000'000, gaps));
      indices[position] = before;
    }
    EXPECT_EQ(gaps_of_indices(place, indices, indices[0] + 1, 1'000'000, gaps, widths), 0U);
    const std::uint64_t last = indices[indices.size() - 1];
    EXPECT_EQ(gaps_of_indices(place, indices, 100, last - 100, gaps, widths), indices.size() - 1);
    EXPECT_FALSE(indices_of_relative(place, indices, 0, last, gaps));
    EXPECT_TRUE(indices_of_relative(place, indices, 0, last + 1, gaps));
  });
}

TEST(IndexKernels, GapsThatLeadOutsideAreRefused) {
  for_each_thread_count([](Place& place) {
    std::vector<std::uint32_t> gaps(40'000, 1);  // last index 79,999
    EXPECT_FALSE(indices_of_gaps(place, 10, 79'999, gaps));
    gaps.assign(40'000, 1);
    EXPECT_TRUE(indices_of_gaps(place, 10, 80'000, gaps));
    EXPECT_EQ(gaps.back(), 80'009U);
    gaps.assign(40'000, 0xFFFF'FFFFU);  // wraps many times in 32 bits
    EXPECT_FALSE(indices_of_gaps(place, 0, 0xFFFF'FFFFU, gaps));
  });
}

TEST(IndexKernels, BitmapsOfAnotherCountOrLengthAreRefused) {
  for_each_thread_count([](Place& place) {
    std::vector<std::uint32_t> words{0x8000'0001U, 0x0000'0001U};
    std::vector<std::uint32_t> three(3);
    std::vector<std::uint32_t> two(2);
    EXPECT_TRUE(indices_of_bitmap(place, words, 100, 33, three));
    EXPECT_EQ(three, (std::vector<std::uint32_t>{100, 131, 132}));
    EXPECT_FALSE(indices_of_bitmap(place, words, 100, 33, two));
    words[1] = 2;  // entry 33 of 33
    EXPECT_FALSE(indices_of_bitmap(place, words, 100, 33, three));
  });
}

}  // namespace
}  // namespace laconic
