#pragma once

// How the fast selection works. One pass adds the residual and, in each thread's contiguous range, collects as
// candidates the entries whose key (the bits of the magnitude) is above a bound. If the key is also above a second
// bound, the expected threshold, it writes zero to `rest` at once. A count proves that the candidates contain the k
// largest entries. The exact threshold is then found among the candidates alone, and `rest` is repaired only where the
// expectation was wrong.
//
// The candidates cannot overflow: a full buffer is reduced to its k largest entries and the bound is raised to match,
// which is exact for any data. So a second pass is needed only if the bound was too high, and the bound "everything"
// always suffices.

#include <span>

#include "base/thread_pool.h"
#include "base/workspace.h"
#include "kernels/topk/selection.h"

namespace laconic::topk {

/// Keys as signed integers. "Above" is strict, so -1 means everything.
struct Bounds {
  std::int32_t candidate = -1;  ///< entries above are collected
  std::int32_t zero = -1;       ///< candidates above are set to zero in the same pass
};

/// The bits of a magnitude: a key without its sign.
inline constexpr std::uint32_t kMagnitude = 0x7FFF'FFFFU;

/// A range shorter than this is not worth a thread of its own.
inline constexpr std::size_t kShortestRange = 16'384;

/// Entries per block. A scan checks its buffers between blocks, and a block's positions fit the table that joins it
/// with a support.
inline constexpr std::size_t kBlock = 4096;

/// Whole vectors are stored, so buffers are longer than their contents by this many entries.
inline constexpr std::size_t kOverrun = 16;

/// One thread's range and the candidates found in it, by ascending index.
struct alignas(64) Section {
  Range range;
  std::uint32_t* indices = nullptr;
  std::uint32_t* values = nullptr;  ///< bits of a
  std::uint32_t* keys =
      nullptr;  ///< keys to select by (ignore the sign bit); the same memory as `values` if no entry is rescored
  std::uint32_t* scratch = nullptr;  ///< as long as the others
  std::size_t capacity = 0;          ///< of each array, without the overrun

  Bounds bounds;             ///< `candidate` may rise during a scan; `zero` does not change
  std::size_t count = 0;     ///< candidates stored
  std::size_t sound = 0;     ///< candidates with keys above the bound with which the scan began
  std::int32_t highest = 0;  ///< largest magnitude met

  std::size_t members = 0;  ///< candidates that may still be the threshold, in scratch
  std::size_t greater = 0;  ///< candidates above the threshold
  std::size_t equal = 0;    ///< candidates at the threshold; later, how many of them are selected
  std::size_t offset = 0;   ///< where this section's selected entries begin
};

/// Memory for `candidates` and the overrun. Candidates are selected by their values unless `keys` is set later.
void make_room(Workspace& workspace, std::size_t candidates, Section& section);

/// One pass over a section's range. If `again`, it reads a from `rest` instead of adding.
void scan_section(SimdLevel level, const Selection& selection, Section& section, bool again);

/// Restores the entries that the scan of a section set to zero, so that `rest` holds a again.
void restore_section(const Selection& selection, const Section& section);

/// Finds the threshold among all sections' candidates with keys above `base`, of which there are at least k > 0. Sets
/// each section's `greater`, `equal` (how many to select, lowest index first) and `offset`. `histograms` has sections x
/// kHistogram entries.
inline constexpr unsigned kBinBits = 12;
inline constexpr std::size_t kBins = std::size_t{1} << kBinBits;
inline constexpr std::size_t kHistogram = kBins + 16;
std::uint32_t choose_threshold(SimdLevel level, ThreadPool& pool, std::span<Section> sections, std::int32_t base,
                               std::size_t k, View<std::uint32_t> histograms);

}  // namespace laconic::topk
