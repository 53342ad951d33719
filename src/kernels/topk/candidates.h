#pragma once

// How the fast selection works. One pass adds and, in each thread's contiguous range, collects the entries whose key
// (the bits of the magnitude) is above a bound; where the key is above a second bound, the expected threshold, it
// writes zero at once. A count proves that the candidates hold the k largest. The exact threshold is then found among
// the candidates alone, and `rest` is repaired only where the expectation was wrong.
//
// Candidates cannot overflow: a full buffer is cut down to its k largest and the bound rises accordingly, which is
// exact for any data. So only a bound that was too high leads to a second pass, and the bound "everything" always
// suffices.

#include <span>

#include "base/thread_pool.h"
#include "kernels/topk/selection.h"

namespace laconic::topk {

/// Keys as signed integers, "above" being strict, so that -1 means everything.
struct Bounds {
  std::int32_t candidate = -1;  ///< entries above are collected
  std::int32_t zero = -1;       ///< candidates above are set to zero in the same pass
};

/// Entries a block: a scan looks up between blocks, and a block's positions fit the table that joins it with a support.
inline constexpr std::size_t kBlock = 4096;

/// Vectors are stored whole, so buffers are longer than what they hold by this much.
inline constexpr std::size_t kOverrun = 16;

/// One thread's range and the candidates found in it, by ascending index.
struct alignas(64) Part {
  Range range;
  std::uint32_t* indices = nullptr;
  std::uint32_t* values = nullptr;  ///< bits of a
  std::uint32_t* keys =
      nullptr;  ///< what selects; the same memory as `values` when no entry is rescored (sign bit: ignore)
  std::uint32_t* scratch = nullptr;  ///< as long as the others
  std::size_t capacity = 0;          ///< of each, without the overrun

  Bounds bounds;             ///< `candidate` rises while a scan goes on; `zero` stays
  std::size_t count = 0;     ///< candidates stored
  std::size_t sound = 0;     ///< of those, keys above the bound that the scan began with
  std::int32_t highest = 0;  ///< largest magnitude met

  std::size_t members = 0;  ///< candidates among which the threshold still is, in scratch
  std::size_t greater = 0;  ///< candidates above the threshold
  std::size_t equal = 0;    ///< candidates at the threshold, and later how many of them are taken
  std::size_t offset = 0;   ///< where this part's selected entries begin
};

/// A pass over one part's range. `again`: reads `rest`, which holds a, instead of adding.
void scan_part(SimdLevel level, const Selection& selection, Part& part, bool again);

/// Writes back what the scan of a part set to zero, so that `rest` is a again.
void restore_part(const Selection& selection, const Part& part);

/// The threshold among all parts' candidates with keys above `base`; there are at least k > 0. Fills each part's
/// `greater`, `equal` (how many to take, lowest index first) and `offset`. `histograms`: parts x kHistogram.
inline constexpr unsigned kBinBits = 12;
inline constexpr std::size_t kBins = std::size_t{1} << kBinBits;
inline constexpr std::size_t kHistogram = kBins + 16;
std::uint32_t choose_threshold(SimdLevel level, ThreadPool& pool, std::span<Part> parts, std::int32_t base,
                               std::size_t k, View<std::uint32_t> histograms);

}  // namespace laconic::topk
