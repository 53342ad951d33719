#pragma once

// How the selection works on a device. The CPU launches the same kernels for any data, and does not wait; what they do
// is decided on the device.
//
// bounds: a sample of cache lines confirms the last threshold or gives a new one. Entries with keys from `candidate` on
//   (0.9 x the threshold) are candidates.
// scan: a = gradient + residual, once over all entries, tile by tile. Candidates go to the workspace, by ascending
//   index in each tile. `rest` receives a, or at once 0 where the key is at least `zero`, the expected threshold.
// count, four passes: histograms of the candidates' keys, 12 bits and then the 12 below, give the exact threshold. The
//   first pass also computes the keys, where they are not the values' own. If the candidates do not contain the k
//   largest, or there was no room for them, the passes count all entries instead, 12 + 12 + 7 bits, which is exact for
//   any data. If most entries are equal, the sample knows the threshold, and the first of these passes proves it.
// emit: selected entries by ascending index, and `rest` repaired where the expectation was wrong.
//
// Each kernel begins while the one before it ends (Chain). The scan loads its first entries meanwhile.
// Many scopes are searched by the same launches: each block works for one of them. A short scope takes one block of one
// launch instead (small.h).

#include "base/cuda/parts.h"
#include "base/cuda/scan.h"
#include "base/workspace.h"
#include "kernels/convert/cuda/numbers.h"
#include "kernels/residual.h"
#include "kernels/scope.h"
#include "kernels/topk/selection.h"

namespace laconic::cuda::search {

using laconic::topk::key_of;
using laconic::topk::kNonfiniteKey;
using laconic::topk::Selection;

inline constexpr unsigned kTile = 4096;  ///< entries of a block of the scan

inline constexpr unsigned kBinBits = 12;
inline constexpr unsigned kBins = 1U << kBinBits;
inline constexpr unsigned kAboveWindow = kBins;
inline constexpr unsigned kAboveExpected = kBins + 1;
inline constexpr unsigned kAtExpected = kBins + 2;
inline constexpr unsigned kHistogram = kBins + 3;

/// Passes that count. The coarse one reads candidates, the first and second all entries, the last either.
inline constexpr unsigned kCoarse = 0;
inline constexpr unsigned kFirst = 1;
inline constexpr unsigned kSecond = 2;
inline constexpr unsigned kLast = 3;
inline constexpr unsigned kPasses = 4;

/// What the passes and emit work on.
enum class Mode : std::uint32_t {
  candidates,
  everything,
  nothing,  ///< k is 0
  give_up,  ///< a NaN or an Inf was met
};

/// Keys among which the threshold is: `bins` bins, 2^shift wide, from `low` on. Of the entries in it `rank` are
/// selected; when the window has become one key, these are the equals to take.
struct Window {
  std::uint32_t low;
  std::uint32_t shift;
  std::uint32_t bins;
  std::uint32_t rank;
};

/// Written by one kernel, read by the next.
struct State {
  unsigned long long found;  ///< candidates, also those for which there was no room
  std::uint32_t candidate;   ///< at most kNonfiniteKey, as is the next: what is not finite is a candidate
  std::uint32_t zero;
  std::uint32_t expected;  ///< key that may be the threshold
  std::uint32_t exact;     ///< it is: the first pass over all entries has proved it
  std::uint32_t nonfinite;
  std::uint32_t smallest;  ///< key; only if everything is selected
  Mode mode;
  Window window;
  std::uint32_t finished[kPasses];  ///< blocks that have finished
};

/// Where the candidates of a tile lie.
struct Stored {
  std::uint32_t start;
  std::uint32_t count;
};

/// All entries, in tiles that begin `lead` entries before the first one, at a multiple of 16 bytes.
struct Entries {
  const float* values;
  std::uint64_t size;
  std::uint32_t lead;
  std::uint32_t tile;

  __host__ __device__ std::uint64_t tiles() const { return (size + lead + tile - 1) / tile; }
};

/// Candidates in the workspace. If no entry is rescored, `keys` is the same memory as `values`, and the sign bit is to
/// be ignored.
struct Candidates {
  std::uint32_t* indices;
  std::uint32_t* values;  ///< bits of a
  std::uint32_t* keys;
  std::uint64_t room;
  Stored* tiles;
};

/// What the scopes of a call share: its views, and scratch memory in which each scope has a part.
struct Common {
  const void* gradient;  ///< of the type that kernels are compiled for
  const float* residual;
  float* rest;
  std::uint32_t* selected_indices;
  float* selected_values;
  std::uint64_t selected;  ///< entries, of all scopes
  const float* last_thresholds;
  float* next_thresholds;  ///< may be the last ones
  Status* status;
  Candidates candidates;
  State* states;              ///< one per scope
  std::uint32_t* histograms;  ///< kPasses of kHistogram per scope
  unsigned long long* greater;  ///< words of sum_before_block, one per block of emit
  unsigned long long* equal;
};

/// Where a scope lies in the views and in the scratch memory.
struct ScopePart {
  std::uint64_t offset;
  std::uint64_t size;
  std::uint64_t first;  ///< of its selected entries, and of the last support
  std::uint64_t first_candidate;
  std::uint32_t k;
  std::uint32_t support;  ///< entries of the last support
  std::uint32_t number;   ///< of the scope in the call
  std::uint32_t room;     ///< for candidates
  std::uint32_t first_tile;
  std::uint32_t first_emit_block;
};

/// The selection in one scope, as a block sees it.
struct Search {
  const void* gradient;  ///< of the call
  std::uint64_t offset;
  const float* residual;
  float* rest;
  Entries entries;  ///< their values are in `rest` once it is scanned and restored
  std::uint32_t k;
  std::uint32_t* selected_indices;
  float* selected_values;
  std::uint64_t selected;  ///< entries, of all scopes
  const float* last_threshold;
  float* next_threshold;
  Status* status;
  Candidates candidates;
  State* state;
  std::uint32_t* histograms;
  unsigned long long* greater;
  unsigned long long* equal;
  std::uint64_t first;  ///< in the last support
  std::uint32_t support;
  std::uint64_t first_tile_begin;  ///< in the table of Regularized
  unsigned block;                  ///< number of this block among those of the scope
  unsigned blocks;
};

/// In emit: at most kWarp.
inline __host__ __device__ std::uint32_t tiles_per_warp(std::uint64_t tiles) {
  const std::uint64_t each = tiles / 4096;
  return each < 2 ? 2 : each > 8 ? 8 : static_cast<std::uint32_t>(each);
}

inline __host__ __device__ std::uint32_t tiles_per_emit_block(std::uint64_t tiles) {
  return tiles_per_warp(tiles) * (kThreads / kWarp);
}
inline std::uint32_t emit_blocks(std::uint64_t tiles) {
  const std::uint32_t each = tiles_per_emit_block(tiles);
  return static_cast<std::uint32_t>((tiles + each - 1) / each);
}

#ifdef __CUDACC__
/// Clears the words of emit's blocks. One block of kBlockThreads calls it. It multiplies: a division takes long.
template <unsigned kBlockThreads>
__device__ void clear_emit_words(std::uint64_t tiles, unsigned long long* greater, unsigned long long* equal) {
  const std::uint64_t each = tiles_per_emit_block(tiles);
  for (std::uint64_t i = threadIdx.x; i * each < tiles; i += kBlockThreads) greater[i] = equal[i] = 0;
}
#endif

/// Entries from a multiple of 16 bytes to this address.
inline __host__ __device__ std::uint32_t lead_of(const float* values) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(values) % sizeof(float4) / sizeof(float));
}

inline __host__ __device__ Entries entries_of(const Common& common, const ScopePart& part) {
  const float* rest = common.rest + part.offset;
  return {rest, part.size, lead_of(rest), kTile};
}

/// Scopes of a launch: as many as there is room for in its parameters.
inline constexpr unsigned kMostScopes = 64;

#ifdef __CUDACC__
/// The scopes of a launch, a parameter of every kernel. A block calls `here` for its own.
template <unsigned kMost>
struct ScopeSearches {
  Common common;
  Parts<ScopePart, kMost> parts;

  __device__ Search here() const {
    const unsigned index = parts.of_block();
    const ScopePart& part = parts.items[index];
    return {common.gradient,
            part.offset,
            common.residual + part.offset,
            common.rest + part.offset,
            entries_of(common, part),
            part.k,
            common.selected_indices + part.first,
            common.selected_values + part.first,
            common.selected,
            common.last_thresholds + part.number,
            common.next_thresholds + part.number,
            common.status,
            {common.candidates.indices + part.first_candidate, common.candidates.values + part.first_candidate,
             common.candidates.keys + part.first_candidate, part.room, common.candidates.tiles + part.first_tile},
            common.states + index,
            common.histograms + std::uint64_t{index} * kPasses * kHistogram,
            common.greater + part.first_emit_block,
            common.equal + part.first_emit_block,
            part.first,
            part.support,
            std::uint64_t{part.first_tile} + index,  // a scope has one more than tiles
            parts.block_in(index),
            parts.blocks_in(index)};
  }
};
static_assert(sizeof(ScopeSearches<kMostScopes>) <= 4'000, "parameters of a kernel, beside the scores");

/// What the caller learns of a scope, beside the entries.
inline __device__ void report(const Search& search, float threshold) {
  *search.next_threshold = threshold;
  search.status->count = search.selected;
}

template <class Number>
__device__ const Number* gradient_of(const Search& search) {
  return static_cast<const Number*>(search.gradient) + search.offset;
}
#endif

/// Every score is a magnitude. kernels/regtopk has another one.
struct Magnitudes {
  static constexpr bool kRescored = false;
  __device__ Magnitudes of(const Search&) const { return {}; }
};

}  // namespace laconic::cuda::search
