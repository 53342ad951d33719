#pragma once

// How the selection works on a device. The CPU launches the same kernels for any data, and does not wait; what they do
// is decided on the device.
//
// bounds: a sample of cache lines confirms the last threshold or gives a new one. Entries with keys from `candidate` on
//   (0.9 x the threshold) are candidates.
// scan: a = gradient + residual, once over all entries, tile by tile. Candidates go to the workspace, by ascending
//   index in each tile. `rest` receives a, or at once 0 where the key is at least `zero`, the expected threshold.
// count, four passes: histograms of the candidates' keys, 12 bits and then the 12 below, give the exact threshold. If
//   the candidates do not contain the k largest, or there was no room for them, the passes count all entries instead,
//   12 + 12 + 7 bits, which is exact for any data. If most entries are equal, the sample knows the threshold, and the
//   first of these passes proves it.
// emit: selected entries by ascending index, and `rest` repaired where the expectation was wrong.
//
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
/// Clears the words of emit's blocks. One block of kBlockThreads calls it. It multiplies, because a division takes long.
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

#ifdef __CUDACC__
/// Four entries of a.
inline __device__ void add_vectors(const float4& gradient, const float4& residual, float* values) {
  values[0] = with_residual(gradient.x, residual.x);
  values[1] = with_residual(gradient.y, residual.y);
  values[2] = with_residual(gradient.z, residual.z);
  values[3] = with_residual(gradient.w, residual.w);
}

inline __device__ std::uint32_t magnitude_bits(std::uint32_t bits) { return bits & 0x7FFF'FFFFU; }

/// A warp's walk over a tile of all entries, 32 at a time by ascending index. All lanes call body(index, value, key,
/// valid) together.
template <class Scores, class Body>
__device__ void for_each_in_tile(const Entries& entries, const Scores& scores, std::uint64_t tile, Body body) {
  constexpr unsigned kAtOnce = 8;  // loads under way
  const std::uint64_t begin = tile == 0 ? 0 : tile * entries.tile - entries.lead;
  std::uint64_t end = (tile + 1) * entries.tile - entries.lead;
  if (end > entries.size) end = entries.size;
  [[maybe_unused]] std::uint32_t next = 0;
  if constexpr (Scores::kRescored) next = scores.first_in_tile(tile);
  for (std::uint64_t at = begin; at < end; at += kAtOnce * kWarp) {
    float values[kAtOnce];
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i) {
      const std::uint64_t index = at + i * kWarp + lane();
      values[i] = index < end ? entries.values[index] : 0.0F;
    }
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i) {
      const std::uint64_t row = at + i * kWarp;
      if (row >= end) break;
      std::uint32_t key = key_of(values[i]);
      if constexpr (Scores::kRescored) key = scores.key_in_row(row, values[i], key, next);
      body(static_cast<std::uint32_t>(row + lane()), values[i], key, row + lane() < end);
    }
  }
}

/// The same for the candidates of a tile, which lie where `stored` says.
template <class Body>
__device__ void for_each_stored(const Candidates& candidates, const Stored& stored, Body body) {
  constexpr unsigned kAtOnce = 4;
  for (std::uint32_t at = 0; at < stored.count; at += kAtOnce * kWarp) {
    std::uint32_t indices[kAtOnce];
    std::uint32_t values[kAtOnce];
    std::uint32_t keys[kAtOnce];
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i) {
      const std::uint32_t offset = at + i * kWarp + lane();
      if (offset >= stored.count) continue;
      const std::uint64_t from = std::uint64_t{stored.start} + offset;
      indices[i] = candidates.indices[from];
      values[i] = candidates.values[from];
      keys[i] = candidates.keys[from];
    }
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i) {
      const std::uint32_t row = at + i * kWarp;
      if (row >= stored.count) break;
      const bool valid = row + lane() < stored.count;
      body(valid ? indices[i] : 0, valid ? __uint_as_float(values[i]) : 0.0F, valid ? magnitude_bits(keys[i]) : 0,
           valid);
    }
  }
}

/// The same for at most kWarp tiles.
template <class Body>
__device__ void for_each_candidate(const Candidates& candidates, std::uint64_t first_tile, std::uint64_t end_tile,
                                   Body body) {
  Stored mine{0, 0};
  if (first_tile + lane() < end_tile) mine = candidates.tiles[first_tile + lane()];
  for (unsigned i = 0; first_tile + i < end_tile; ++i) {
    const Stored stored{__shfl_sync(kAllThreadsOfWarp, mine.start, i), __shfl_sync(kAllThreadsOfWarp, mine.count, i)};
    for_each_stored(candidates, stored, body);
  }
}

/// A thread's additions to a histogram in shared memory. Those to one bin that follow each other are one: many equal
/// keys would otherwise wait for each other.
class Counter {
 public:
  explicit __device__ Counter(std::uint32_t* bins) : bins_(bins) {}

  __device__ void add(std::uint32_t bin) {
    if (bin != bin_) flush();
    bin_ = bin;
    ++count_;
  }
  __device__ void flush() {
    if (count_ > 0) atomicAdd(bins_ + bin_, count_);
    count_ = 0;
  }

 private:
  std::uint32_t* bins_;
  std::uint32_t bin_ = 0;
  std::uint32_t count_ = 0;
};

/// A bin and how many entries are in those above it.
struct Bin {
  std::uint32_t index;
  std::uint32_t above;
  bool found;  ///< false if there are fewer than `rank` entries
};

/// The bin of the entry of that rank >= 1, counted from the highest bin; at(i) is how many are in bin i. All threads of
/// the block call it.
template <unsigned kBlockThreads, unsigned kBinCount, class At>
__device__ Bin find_bin(std::uint32_t rank, At at) {
  constexpr unsigned kEach = kBinCount / kBlockThreads;
  __shared__ Bin result;
  const unsigned top = kBinCount - 1 - threadIdx.x * kEach;
  std::uint32_t counts[kEach];
  std::uint32_t mine = 0;
#pragma unroll
  for (unsigned i = 0; i < kEach; ++i) {
    counts[i] = at(top - i);
    mine += counts[i];
  }
  const SumsOfBlock<std::uint32_t> sums = sums_of_block<kBlockThreads>(mine);
  if (threadIdx.x == 0) result.found = sums.all >= rank;
  if (sums.before < rank && rank - sums.before <= mine) {
    std::uint32_t above = sums.before;
    bool searching = true;
#pragma unroll
    for (unsigned i = 0; i < kEach; ++i) {
      if (searching && rank - above <= counts[i]) {
        result.index = top - i;
        result.above = above;
        searching = false;
      }
      above += counts[i];
    }
  }
  __syncthreads();
  const Bin found = result;
  __syncthreads();  // the next call writes the same memory
  return found;
}
#endif

}  // namespace laconic::cuda::search
