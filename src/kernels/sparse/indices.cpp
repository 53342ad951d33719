#include "kernels/sparse/indices.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "base/transfer.h"
#include "base/workspace.h"
#include "kernels/cuda.h"
#include "kernels/sparse/twins.h"

namespace laconic {
namespace {

constexpr std::size_t kIndexCut = 512;
constexpr std::size_t kShortLoop = 32'768;  // below, a second thread does not pay

/// Cuts [0, size) into one part per thread, sums measure(range) over them, and if enough(total) calls
/// fill(range, sum over the parts before). Returns enough(total).
template <class Measure, class Enough, class Fill>
bool fill_by_prefix(Place& place, std::size_t size, Measure&& measure, Enough&& enough, Fill&& fill) {
  const Workspace::Scope scope(place.workspace());
  const std::size_t parts = size < kShortLoop ? 1 : static_cast<std::size_t>(place.threads());
  const auto sums = place.workspace().take<std::uint64_t>(parts);
  place.pool().run(parts, [&](std::size_t part) { sums[part] = measure(part_of(size, part, parts, kIndexCut)); });
  std::uint64_t total = 0;
  for (std::uint64_t& sum : sums) {
    const std::uint64_t before = total;
    total += sum;
    sum = before;
  }
  if (!enough(total)) return false;
  place.pool().run(parts, [&](std::size_t part) { fill(part_of(size, part, parts, kIndexCut), sums[part]); });
  return true;
}

/// One group's gaps; returns their bits or-ed together, whose width is that of the largest. `previous` is one below the
/// first possible index.
std::uint32_t group_gaps(const std::uint32_t* indices, std::size_t n, std::uint32_t previous, std::uint32_t* gaps) {
  std::uint32_t bits = gaps[0] = indices[0] - previous - 1;
  for (std::size_t i = 1; i < n; ++i) {
    gaps[i] = indices[i] - indices[i - 1] - 1;
    bits |= gaps[i];
  }
  return bits;
}

std::uint64_t ascending_prefix(View<const std::uint32_t> indices, std::uint64_t first, std::uint64_t size) {
  std::uint64_t least = first;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < least || indices[i] - first >= size) return i;
    least = std::uint64_t{indices[i]} + 1;
  }
  return indices.size();
}

/// Whether indices[i] < indices[i + 1] throughout: no early exit, so that it runs in vectors.
bool ascending(const std::uint32_t* indices, std::size_t n) {
  std::uint32_t wrong = 0;
  for (std::size_t i = 1; i < n; ++i) wrong |= static_cast<std::uint32_t>(indices[i] <= indices[i - 1]);
  return wrong == 0;
}

bool ascending(Place& place, View<const std::uint32_t> indices) {
  std::atomic<bool> sound{true};
  parallel_ranges(place.pool(), indices.size(), kIndexCut, [&](Range range) {
    const std::size_t begin = range.begin == 0 ? 0 : range.begin - 1;  // the pair across the cut
    if (!ascending(indices.data() + begin, range.end - begin)) sound.store(false, std::memory_order_relaxed);
  });
  return sound.load(std::memory_order_relaxed);
}

/// Ascending throughout and both ends inside.
bool inside(Place& place, View<const std::uint32_t> indices, std::uint64_t first, std::uint64_t size) {
  if (indices.empty()) return true;
  const std::uint32_t last = indices[indices.size() - 1];
  return indices[0] >= first && last >= first && last - first < size && ascending(place, indices);
}

}  // namespace

std::uint64_t gaps_of_indices(Place& place, View<const std::uint32_t> indices, std::uint64_t first, std::uint64_t size,
                              View<std::uint32_t> gaps, View<std::uint8_t> widths) {
  require_same_device("indices", indices.device(), place.device());
  require_same_device("gaps", gaps.device(), place.device());
  require_same_device("widths", widths.device(), place.device());
  LACONIC_CHECK(gaps.size() == indices.size());
  LACONIC_CHECK(widths.size() == (indices.size() + kGapGroup - 1) / kGapGroup);
  if (place.device() == Device::cuda) {
    if (indices.empty()) return 0;
    const Workspace::Scope scope(place.workspace());
    const View<std::uint64_t> unsound = place.workspace().take<std::uint64_t>(widths.size());
    LACONIC_CUDA_CALL(gaps_of_indices, place, indices, first, size, gaps, widths, unsound);
    return read_one<std::uint64_t>(place, unsound);
  }
  const Touch touch(place);
  if (!inside(place, indices, first, size)) return ascending_prefix(indices, first, size);
  parallel_ranges(place.pool(), indices.size(), kGapGroup, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; i += kGapGroup) {
      const std::size_t n = std::min<std::size_t>(kGapGroup, range.end - i);
      // Before the first stands first - 1, which wraps for 0 and comes back by the subtraction.
      const std::uint32_t previous = i == 0 ? static_cast<std::uint32_t>(first) - 1 : indices[i - 1];
      const std::uint32_t bits = group_gaps(indices.data() + i, n, previous, gaps.data() + i);
      widths[i / kGapGroup] = static_cast<std::uint8_t>(std::bit_width(bits));
    }
  });
  return indices.size();
}

bool indices_of_gaps(Place& place, std::uint64_t first, std::uint64_t size, View<std::uint32_t> gaps) {
  require_same_device("gaps", gaps.device(), place.device());
  if (place.device() == Device::cuda) {
    if (gaps.empty()) return true;
    const Workspace::Scope scope(place.workspace());
    const std::uint64_t groups = (gaps.size() + kGapGroup - 1) / kGapGroup;
    const View<std::uint64_t> measures = place.workspace().take<std::uint64_t>(groups + 1);
    LACONIC_CUDA_CALL(indices_of_gaps, place, first, size, gaps, measures);
    return read_one<std::uint64_t>(place, measures.sub(groups, 1)) <= size;
  }
  const Touch touch(place);
  return fill_by_prefix(
      place, gaps.size(),
      [&](Range range) {
        std::uint64_t sum = range.size();
        for (std::size_t i = range.begin; i < range.end; ++i) sum += gaps[i];
        return sum;
      },
      // At most 2^32 gaps below 2^32: the sum cannot wrap, and indices only grow, so the last one speaks for all.
      [&](std::uint64_t total) { return total <= size; },
      [&](Range range, std::uint64_t before) {
        auto next = static_cast<std::uint32_t>(first + before);
        for (std::size_t i = range.begin; i < range.end; ++i) {
          next += gaps[i];
          gaps[i] = next++;
        }
      });
}

void indices_from_first(Place& place, View<const std::uint32_t> indices, std::uint64_t first, View<std::uint32_t> out) {
  require_same_device("indices", indices.device(), place.device());
  require_same_device("out", out.device(), place.device());
  LACONIC_CHECK(out.size() == indices.size());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(indices_from_first, place, indices, first, out);
  const Touch touch(place);
  const auto shift = static_cast<std::uint32_t>(first);
  parallel_ranges(place.pool(), indices.size(), kIndexCut, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) out[i] = indices[i] - shift;
  });
}

bool indices_of_relative(Place& place, View<const std::uint32_t> relative, std::uint64_t first, std::uint64_t size,
                         View<std::uint32_t> indices) {
  require_same_device("relative", relative.device(), place.device());
  require_same_device("indices", indices.device(), place.device());
  LACONIC_CHECK(indices.size() == relative.size());
  if (place.device() == Device::cuda) {
    if (indices.empty()) return true;
    const Workspace::Scope scope(place.workspace());
    const View<std::uint32_t> unsound = place.workspace().take<std::uint32_t>(1);
    LACONIC_CUDA_CALL(indices_of_relative, place, relative, first, size, indices, unsound);
    return read_one<std::uint32_t>(place, unsound) == 0;
  }
  const Touch touch(place);
  if (!inside(place, relative, 0, size)) return false;
  indices_from_first(place, relative, 0 - first, indices);
  return true;
}

void bitmap_of_indices(Place& place, View<const std::uint32_t> indices, std::uint64_t first,
                       View<std::uint32_t> words) {
  require_same_device("indices", indices.device(), place.device());
  require_same_device("words", words.device(), place.device());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(bitmap_of_indices, place, indices, first, words);
  const Touch touch(place);
  parallel_ranges(place.pool(), words.size(), kIndexCut, [&](Range range) {
    std::memset(words.data() + range.begin, 0, range.size() * sizeof(std::uint32_t));
    const auto* entry = std::lower_bound(indices.begin(), indices.end(), first + 32 * std::uint64_t{range.begin});
    for (; entry != indices.end() && *entry - first < 32 * std::uint64_t{range.end}; ++entry) {
      const auto position = static_cast<std::uint32_t>(*entry - first);
      words[position / 32] |= std::uint32_t{1} << position % 32;
    }
  });
}

bool indices_of_bitmap(Place& place, View<const std::uint32_t> words, std::uint64_t first, std::uint64_t size,
                       View<std::uint32_t> indices) {
  require_same_device("words", words.device(), place.device());
  require_same_device("indices", indices.device(), place.device());
  LACONIC_CHECK(words.size() == (size + 31) / 32);
  if (place.device() == Device::cuda) {
    if (size == 0) return indices.empty();
    const Workspace::Scope scope(place.workspace());
    const std::uint64_t units = (size + cuda::kBitmapUnit - 1) / cuda::kBitmapUnit;
    const View<std::uint64_t> measures = place.workspace().take<std::uint64_t>(units + 1);
    LACONIC_CUDA_CALL(indices_of_bitmap, place, words, first, size, indices, measures);
    return read_one<std::uint64_t>(place, measures.sub(units, 1)) == indices.size();
  }
  const Touch touch(place);
  if (size % 32 != 0 && words[words.size() - 1] >> size % 32 != 0) return false;
  return fill_by_prefix(
      place, words.size(),
      [&](Range range) {
        std::uint64_t bits = 0;
        for (std::size_t i = range.begin; i < range.end; ++i)
          bits += static_cast<std::uint64_t>(std::popcount(words[i]));
        return bits;
      },
      [&](std::uint64_t total) { return total == indices.size(); },
      [&](Range range, std::uint64_t before) {
        for (std::size_t i = range.begin; i < range.end; ++i) {
          for (std::uint32_t word = words[i]; word != 0; word &= word - 1) {
            const auto bit = static_cast<std::uint64_t>(std::countr_zero(word));
            indices[before++] = static_cast<std::uint32_t>(first + 32 * std::uint64_t{i} + bit);
          }
        }
      });
}

}  // namespace laconic
