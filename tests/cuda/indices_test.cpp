// The twins of kernels/bitpack and of the lists of kernels/sparse against the processor's.

#include <algorithm>

#include "base/philox.h"
#include "cuda/fixture.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/sparse/draw.h"
#include "kernels/sparse/indices.h"
#include "kernels/sparse/sparse.h"

namespace laconic::test {
namespace {

using Words = std::vector<std::uint32_t>;

/// Ascending, about one of `stride`, from `first` on.
Words some_indices(std::size_t n, std::uint32_t stride, std::uint32_t first, std::uint64_t seed) {
  const RandomStream stream{.seed = seed};
  Words indices(n);
  std::uint32_t next = first;
  for (std::size_t i = 0; i < n; ++i) {
    indices[i] = next + static_cast<std::uint32_t>(draw_below(stream, i, 2 * stride - 1));
    next = indices[i] + 1;
  }
  return indices;
}

constexpr std::size_t kFewSizes[] = {0, 1, 2, 31, 32, 33, 511, 512, 513, 1024, 1025, 9001};

TEST_F(Cuda, FieldsArePackedAndUnpacked) {
  const RandomStream stream{.seed = 3};
  for (const std::size_t n : kFewSizes) {
    Words fields(n);
    for (std::size_t i = 0; i < n; ++i) fields[i] = draw32(stream, i);
    const DeviceArray<std::uint32_t> device_fields(fields, n % 3);
    for (int bits = 0; bits <= 32; ++bits) {
      if (left_out()) continue;
      std::vector<std::byte> packed(packed_bytes(n, bits));
      pack_fields(reference_, fields, bits, packed);
      const std::size_t shift = static_cast<std::size_t>(bits) % 5;
      const DeviceArray<std::byte> device_packed(packed.size(), shift);
      pack_fields(*place_, device_fields.view(), bits, device_packed.view());
      EXPECT_TRUE(same_bits(device_packed.values(), packed)) << n << " of " << bits << " bits";
      EXPECT_TRUE(device_packed.intact());
      Words unpacked(n);
      unpack_fields(reference_, packed, bits, unpacked);
      const DeviceArray<std::uint32_t> device_unpacked(n, 1);
      unpack_fields(*place_, device_packed.view(), bits, device_unpacked.view());
      EXPECT_TRUE(same_bits(device_unpacked.values(), unpacked)) << n << " of " << bits << " bits";
      EXPECT_TRUE(device_unpacked.intact());
    }
  }
}

TEST_F(Cuda, GapsAndBack) {
  for (const std::size_t n : kFewSizes) {
    for (const std::uint32_t stride : {1U, 2U, 50U, 100'000U}) {
      if (left_out()) continue;
      const Words indices = some_indices(n, stride, 77, n);
      const std::uint64_t size = n == 0 ? 5 : indices.back() - 77 + 1;
      const DeviceArray<std::uint32_t> device(indices, n % 3);
      Words gaps(n);
      std::vector<std::uint8_t> widths((n + kGapGroup - 1) / kGapGroup);
      const DeviceArray<std::uint32_t> device_gaps(n, 2);
      const DeviceArray<std::uint8_t> device_widths(widths.size(), 1);
      EXPECT_EQ(gaps_of_indices(reference_, indices, 77, size, gaps, widths), n);
      EXPECT_EQ(gaps_of_indices(*place_, device.view(), 77, size, device_gaps.view(), device_widths.view()), n);
      EXPECT_TRUE(same_bits(device_gaps.values(), gaps)) << n << " by " << stride;
      EXPECT_TRUE(same_bits(device_widths.values(), widths)) << n << " by " << stride;
      EXPECT_TRUE(device_gaps.intact() && device_widths.intact());
      EXPECT_TRUE(indices_of_gaps(*place_, 77, size, device_gaps.view()));
      EXPECT_TRUE(same_bits(device_gaps.values(), indices)) << n << " by " << stride;
      if (n == 0) continue;
      const DeviceArray<std::uint32_t> too_far(gaps);
      EXPECT_FALSE(indices_of_gaps(*place_, 77, size - 1, too_far.view()));
      for (const std::size_t wrong : {std::size_t{0}, n / 2, n - 1}) {
        Words unsound = indices;
        unsound[wrong] = wrong == 0 ? 3 : unsound[wrong - 1];
        const DeviceArray<std::uint32_t> there(unsound);
        EXPECT_EQ(gaps_of_indices(*place_, there.view(), 77, size, device_gaps.view(), device_widths.view()), wrong);
      }
    }
  }
}

TEST_F(Cuda, RelativeIndicesAndBack) {
  for (const std::size_t n : kFewSizes) {
    const Words indices = some_indices(n, 9, 1000, n);
    const std::uint64_t size = n == 0 ? 5 : indices.back() - 1000 + 1;
    const DeviceArray<std::uint32_t> device(indices, 1);
    Words relative(n);
    const DeviceArray<std::uint32_t> device_relative(n, 2);
    indices_from_first(reference_, indices, 1000, relative);
    indices_from_first(*place_, device.view(), 1000, device_relative.view());
    EXPECT_TRUE(same_bits(device_relative.values(), relative)) << n;
    const DeviceArray<std::uint32_t> back(n, 3);
    EXPECT_TRUE(indices_of_relative(*place_, device_relative.view(), 1000, size, back.view())) << n;
    EXPECT_TRUE(same_bits(back.values(), indices)) << n;
    EXPECT_TRUE(back.intact());
    if (n == 0) continue;
    EXPECT_FALSE(indices_of_relative(*place_, device_relative.view(), 1000, size - 1, back.view())) << n;
    if (n == 1) continue;
    Words unsound = relative;
    unsound[n / 2] = unsound[n / 2 - 1];
    const DeviceArray<std::uint32_t> there(unsound);
    EXPECT_FALSE(indices_of_relative(*place_, there.view(), 1000, size, back.view())) << n;
  }
}

TEST_F(Cuda, BitmapsAndBack) {
  for (const std::size_t n : kFewSizes) {
    for (const std::uint32_t stride : {1U, 3U, 200U}) {
      const Words indices = some_indices(n, stride, 60, n);
      for (const std::uint64_t behind : {0U, 1U, 40U}) {
        if (left_out()) continue;
        const std::uint64_t size = (n == 0 ? 0 : indices.back() - 60 + 1) + behind;
        const DeviceArray<std::uint32_t> device(indices, 1);
        Words words((size + 31) / 32);
        const DeviceArray<std::uint32_t> device_words(words.size(), 2);
        bitmap_of_indices(reference_, indices, 60, words);
        bitmap_of_indices(*place_, device.view(), 60, device_words.view());
        EXPECT_TRUE(same_bits(device_words.values(), words)) << n << " by " << stride;
        EXPECT_TRUE(device_words.intact());
        const DeviceArray<std::uint32_t> back(n, 3);
        EXPECT_TRUE(indices_of_bitmap(*place_, device_words.view(), 60, size, back.view())) << n << " by " << stride;
        EXPECT_TRUE(same_bits(back.values(), indices)) << n << " by " << stride;
        const DeviceArray<std::uint32_t> one_more(n + 1, 3);
        EXPECT_FALSE(indices_of_bitmap(*place_, device_words.view(), 60, size, one_more.view()));
        EXPECT_TRUE(one_more.intact() && back.intact());
        if (size % 32 == 0 || n == 0) continue;
        words.back() |= 0x8000'0000U;  // behind the range, and another bit less
        words[(indices[0] - 60) / 32] ^= 1U << (indices[0] - 60) % 32;
        const DeviceArray<std::uint32_t> beyond(words);
        EXPECT_FALSE(indices_of_bitmap(*place_, beyond.view(), 60, size, back.view()));
      }
    }
  }
}

TEST_F(Cuda, ListsAreCutAndRead) {
  const Words indices = some_indices(5000, 30, 10, 4);
  const DeviceArray<std::uint32_t> device(indices, 1);
  for (const std::size_t count : {0U, 1U, 5U, 64U, 65U, 200U}) {
    std::vector<std::uint64_t> bounds(count);
    std::vector<std::uint64_t> positions(count);
    for (std::size_t i = 0; i < count; ++i) {
      bounds[i] = i == 0 ? 0 : i == 1 ? std::uint64_t{1} << 32 : i * 1777;
      positions[i] = i * 131 % indices.size();
    }
    std::vector<std::uint64_t> expected(count);
    std::vector<std::uint64_t> found(count);
    count_below(reference_, indices, bounds, expected);
    count_below(*place_, device.view(), bounds, found);
    EXPECT_EQ(found, expected);
    count_below(*place_, device.view().sub(0, 0), bounds, found);
    EXPECT_EQ(found, std::vector<std::uint64_t>(count));
    read_indices(reference_, indices, positions, expected);
    read_indices(*place_, device.view(), positions, positions);
    EXPECT_EQ(positions, expected);
  }
}

TEST_F(Cuda, DrawsAreTheProcessors) {
  for (const std::uint64_t size : {1U, 2U, 64U, 1000U, 8192U, 8193U, 50'000U}) {
    for (const std::uint64_t k : {std::uint64_t{0}, std::uint64_t{1}, size / 100, size / 3, size - 1, size}) {
      for (const std::uint32_t step : {0U, 1U, 2U}) {
        if (left_out()) continue;
        const RandomStream stream{.seed = 9, .step = step, .purpose = Purpose::random_k};
        Words expected(k);
        const DeviceArray<std::uint32_t> found(k, 1);
        const Scope scope{.tensor = 3, .offset = 500, .size = size, .first = 0, .count = k};
        draw_indices(reference_, stream, {&scope, 1}, expected);
        draw_indices(*place_, stream, {&scope, 1}, found.view());
        EXPECT_TRUE(same_bits(found.values(), expected)) << k << " of " << size;
        EXPECT_TRUE(found.intact());
      }
    }
  }
}

TEST_F(Cuda, DrawsInManyScopesAreTheProcessors) {
  std::vector<Scope> scopes;
  std::uint64_t offset = 77, selected = 0;
  for (std::uint32_t i = 0; i < 150; ++i) {
    const std::uint64_t size = 1 + i * i % 701 + (i % 40 == 7 ? 9'000 : 0), count = i % 9 == 4 ? size : (size + 9) / 10;
    scopes.push_back({i, offset, size, selected, count});
    offset += size + i % 3;
    selected += count;
  }
  const RandomStream stream{.seed = 11, .step = 4, .purpose = Purpose::random_k};
  Words expected(selected);
  const DeviceArray<std::uint32_t> found(selected, 2);
  draw_indices(reference_, stream, scopes, expected);
  draw_indices(*place_, stream, scopes, found.view());
  EXPECT_TRUE(same_bits(found.values(), expected));
  EXPECT_TRUE(found.intact());
  EXPECT_TRUE(std::is_sorted(expected.begin(), expected.end()));
}

class CudaMerge : public Cuda {
 protected:
  void expect_reference(const std::vector<Words>& lists, float extra = 0.0F) {
    std::vector<std::vector<float>> values;
    std::vector<std::unique_ptr<DeviceArray<std::uint32_t>>> device_lists;
    std::vector<std::unique_ptr<DeviceArray<float>>> device_values;
    std::vector<ConstSparseView> parts;
    std::vector<ConstSparseView> device_parts;
    std::size_t total = 0;
    values.reserve(lists.size());
    for (const Words& list : lists) {
      values.push_back(awkward_values(list.size(), values.size(), extra));
      device_lists.push_back(std::make_unique<DeviceArray<std::uint32_t>>(list, values.size() % 5));
      device_values.push_back(std::make_unique<DeviceArray<float>>(values.back(), values.size() % 3));
      parts.push_back({list, values.back()});
      device_parts.push_back({device_lists.back()->view(), device_values.back()->view()});
      total += list.size();
    }
    Words indices(total);
    std::vector<float> sums(total);
    const DeviceArray<std::uint32_t> device_indices(total, 1);
    const DeviceArray<float> device_sums(total, 2);
    const std::uint64_t count = merge_sum(reference_, parts, {indices, sums});
    ASSERT_EQ(merge_sum(*place_, device_parts, {device_indices.view(), device_sums.view()}), count);
    auto found_indices = device_indices.values();
    auto found_sums = device_sums.values();
    for (auto* list : {&indices, &found_indices}) list->resize(count);
    for (auto* list : {&sums, &found_sums}) list->resize(count);
    EXPECT_TRUE(same_bits(found_indices, indices)) << lists.size() << " lists";
    EXPECT_TRUE(same_numbers(found_sums, sums)) << lists.size() << " lists";
    EXPECT_TRUE(device_indices.intact() && device_sums.intact());
  }
};

TEST_F(CudaMerge, ListsOfEveryNumber) {
  for (const std::size_t ranks : {0U, 1U, 2U, 3U, 8U, 63U, 64U, 65U, 130U}) {
    for (const std::uint32_t stride : {1U, 10U, 3000U}) {
      std::vector<Words> lists;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::size_t n = rank % 4 == 1 ? 0 : 100 + rank;
        lists.push_back(some_indices(n, stride, static_cast<std::uint32_t>(rank % 7), rank));
      }
      expect_reference(lists);
    }
  }
}

TEST_F(CudaMerge, LongListsAndSkewedOnes) {
  expect_reference({some_indices(20'000, 1, 0, 1), some_indices(9000, 4, 500, 2), some_indices(40, 2000, 3, 3)});
  expect_reference({some_indices(30'000, 9, 7, 4), some_indices(30'000, 9, 7, 5), some_indices(1, 5, 4'000'000'000, 6)},
                   kNotANumber);
  expect_reference({{0, 0xFFFF'FFFF}, {0xFFFF'FFFF}, {0, 1, 0x8000'0000}});
  expect_reference({some_indices(5000, 2, 0, 7), some_indices(5000, 2, 0, 7)}, kInfinity);
}

}  // namespace
}  // namespace laconic::test
