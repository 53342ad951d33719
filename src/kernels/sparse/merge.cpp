#include "kernels/sparse/merge.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/thread_pool.h"
#include "base/workspace.h"

namespace laconic {
namespace {

constexpr std::size_t kTile = 65'536;  // 256 KiB of sums: stays in the second-level cache
constexpr std::size_t kTileWords = kTile / 64;
constexpr std::size_t kTileGroups = kTileWords / 64;
constexpr std::size_t kShortMerge = 32'768;  // entries below which a second thread does not pay

/// Where a sum begins: -0 + x is x, bit for bit.
constexpr float kNothing = -0.0F;

/// Sums of kTile neighbouring indices. Between uses all are nothing, so that clearing costs only what was touched.
struct Tile {
  View<float> sums;
  View<std::uint64_t> touched;  ///< a bit an index
  View<std::uint64_t> groups;   ///< a bit a word of `touched`

  /// Only the first `used` sums, so that short scopes do not pay for a whole tile.
  void clear(std::uint64_t used) {
    std::fill_n(sums.data(), std::min<std::uint64_t>(used, kTile), kNothing);
    std::memset(touched.data(), 0, touched.size_bytes());
    std::memset(groups.data(), 0, groups.size_bytes());
  }

  /// Adds the entries from `cursor` on that lie in the tile at `base`; returns the first that does not, at most `end`.
  std::uint64_t add(ConstSparseView part, std::uint64_t cursor, std::uint64_t end, std::uint32_t base) {
    const std::uint32_t* indices = part.indices.data();
    const float* values = part.values.data();
    for (; cursor < end; ++cursor) {
      const std::uint32_t offset = indices[cursor] - base;
      if (offset >= kTile) break;
      sums[offset] = sums[offset] + values[cursor];
      touched[offset / 64] |= std::uint64_t{1} << offset % 64;
      groups[offset / 4096] |= std::uint64_t{1} << offset / 64 % 64;
    }
    return cursor;
  }

  /// Writes what was touched by ascending index from `count` on, and clears it. Returns the new count.
  std::uint64_t take(std::uint32_t base, SparseView sum, std::uint64_t count) {
    for (std::size_t group = 0; group < kTileGroups; ++group) {
      for (std::uint64_t words = std::exchange(groups[group], 0); words != 0; words &= words - 1) {
        const std::size_t word = group * 64 + static_cast<std::size_t>(std::countr_zero(words));
        for (std::uint64_t bits = std::exchange(touched[word], 0); bits != 0; bits &= bits - 1) {
          const std::size_t offset = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
          sum.indices[count] = base + static_cast<std::uint32_t>(offset);
          sum.values[count] = std::exchange(sums[offset], kNothing);
          ++count;
        }
      }
    }
    return count;
  }
};

/// Indices from the smallest to the largest of entries [begins[p], ends[p]) of the parts.
std::uint64_t span_of(std::span<const ConstSparseView> parts, const std::uint64_t* begins, const std::uint64_t* ends) {
  std::uint64_t least = kMostSparseEntries;
  std::uint64_t most = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (begins[part] == ends[part]) continue;
    least = std::min<std::uint64_t>(least, parts[part].indices[begins[part]]);
    most = std::max<std::uint64_t>(most, parts[part].indices[ends[part] - 1]);
  }
  return most < least ? 0 : most - least + 1;
}

/// Merges entries [cursors[p], ends[p]) of each part p, writing from `count` on; returns the count after.
std::uint64_t merge_range(std::span<const ConstSparseView> parts, std::uint64_t* cursors, const std::uint64_t* ends,
                            Tile& tile, SparseView sum, std::uint64_t count) {
  tile.clear(span_of(parts, cursors, ends));
  for (;;) {
    std::uint64_t base = kMostSparseEntries + 1;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      if (cursors[part] < ends[part]) base = std::min<std::uint64_t>(base, parts[part].indices[cursors[part]]);
    }
    if (base > kMostSparseEntries) return count;
    const auto tile_base = static_cast<std::uint32_t>(base);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      cursors[part] = tile.add(parts[part], cursors[part], ends[part], tile_base);
    }
    count = tile.take(tile_base, sum, count);
  }
}

/// Where range `range` of `ranges` begins in each part: quantiles of the longest part cut the index space.
void find_borders(std::span<const ConstSparseView> parts, std::size_t range, std::size_t ranges,
                  std::uint64_t* borders) {
  const auto longest =
      *std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const auto& indices = parts[part].indices;
    if (range == 0) {
      borders[part] = 0;
    } else if (range == ranges) {
      borders[part] = indices.size();
    } else {
      const std::uint32_t cut = longest.indices[longest.size() / ranges * range];
      borders[part] =
          static_cast<std::uint64_t>(std::lower_bound(indices.begin(), indices.end(), cut) - indices.begin());
    }
  }
}

}  // namespace

std::uint64_t merge_tiles(Place& place, std::span<const ConstSparseView> parts, SparseView sum) {
  std::uint64_t total = 0;
  for (const auto& part : parts) total += part.size();
  if (total == 0) return 0;
  Workspace& workspace = place.workspace();
  const Workspace::Scope scope(workspace);
  const std::size_t width = parts.size();
  const std::size_t ranges = total < kShortMerge ? 1 : static_cast<std::size_t>(place.threads());
  const auto borders = workspace.take<std::uint64_t>((ranges + 1) * width);
  const auto cursors = workspace.take<std::uint64_t>(ranges * width);
  const auto begins = workspace.take<std::uint64_t>(ranges);
  const auto ends = workspace.take<std::uint64_t>(ranges);
  const auto tile_sums = workspace.take<float>(ranges * kTile);
  const auto tile_bits = workspace.take<std::uint64_t>(ranges * (kTileWords + kTileGroups));
  for (std::size_t range = 0; range <= ranges; ++range) {
    find_borders(parts, range, ranges, borders.data() + range * width);
  }

  // Each range writes where it would begin if no two parts shared an index: far enough for all, and its own.
  place.pool().run(ranges, [&](std::size_t range) {
    const std::uint64_t* from = borders.data() + range * width;
    std::copy_n(from, width, cursors.data() + range * width);
    begins[range] = 0;
    for (std::size_t part = 0; part < width; ++part) begins[range] += from[part];
    const auto bits = tile_bits.sub(range * (kTileWords + kTileGroups), kTileWords + kTileGroups);
    Tile tile{tile_sums.sub(range * kTile, kTile), bits.sub(0, kTileWords), bits.sub(kTileWords, kTileGroups)};
    ends[range] = merge_range(parts, cursors.data() + range * width, from + width, tile, sum, begins[range]);
  });

  std::uint64_t count = ends[0];
  for (std::size_t range = 1; range < ranges; ++range) {
    const std::uint64_t entries = ends[range] - begins[range];
    std::memmove(sum.indices.data() + count, sum.indices.data() + begins[range], entries * sizeof(std::uint32_t));
    std::memmove(sum.values.data() + count, sum.values.data() + begins[range], entries * sizeof(float));
    count += entries;
  }
  return count;
}

}  // namespace laconic
