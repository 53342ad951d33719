#pragma once

// The pass over all entries.

#include "kernels/topk/cuda/walk.h"

#ifdef __CUDACC__
namespace laconic::cuda::search {

inline constexpr unsigned kVectors = 4;  ///< of four neighbouring entries, per thread
inline constexpr unsigned kPerThread = 4 * kVectors;
static_assert(kTile == kThreads * kPerThread);

/// A thread's entries of a tile. A warp has 512 neighbouring ones, a lane four neighbours in each quarter of them.
struct OfThread {
  float values[kPerThread];     ///< of a
  std::uint32_t valid = 0;      ///< a bit for each value
  std::uint32_t candidate = 0;
  std::uint32_t zero = 0;

  __device__ static unsigned offset(unsigned i) {
    return warp() * kWarp * kPerThread + i / 4 * kWarp * 4 + lane() * 4 + i % 4;
  }

  template <class Number>
  __device__ void load_whole(const Search& search, std::int64_t begin) {
    const Number* gradient = gradient_of<Number>(search) + begin;
    const float* residual = search.residual + begin;
    const bool aligned = is_aligned(gradient) && is_aligned(residual);
    aligned ? load_vectors<true>(gradient, residual) : load_vectors<false>(gradient, residual);
    valid = (1U << kPerThread) - 1;
  }

  /// All loads are under way before the first is used.
  template <bool kAligned, class Number>
  __device__ void load_vectors(const Number* gradient, const float* residual) {
    float4 g[kVectors];
    float4 e[kVectors];
#pragma unroll
    for (unsigned v = 0; v < kVectors; ++v) {
      g[v] = load_four<kAligned>(gradient + offset(4 * v));
      e[v] = load_four<kAligned>(residual + offset(4 * v));
    }
#pragma unroll
    for (unsigned v = 0; v < kVectors; ++v) add_vectors(g[v], e[v], values + 4 * v);
  }

  /// The first and the last tile may have entries outside the view.
  template <class Number>
  __device__ void load_part(const Search& search, std::int64_t begin) {
    const Number* gradient = gradient_of<Number>(search);
#pragma unroll
    for (unsigned i = 0; i < kPerThread; ++i) {
      const std::int64_t index = begin + offset(i);
      const bool inside = index >= 0 && index < static_cast<std::int64_t>(search.entries.size);
      values[i] = inside ? with_residual(widened(gradient[index]), search.residual[index]) : 0.0F;
      valid |= inside ? 1U << i : 0U;
    }
  }

  __device__ void compare(std::uint32_t candidate_bound, std::uint32_t zero_bound) {
#pragma unroll
    for (unsigned i = 0; i < kPerThread; ++i) {
      const std::uint32_t key = key_of(values[i]);
      candidate |= key >= candidate_bound ? 1U << i : 0U;
      zero |= key >= zero_bound ? 1U << i : 0U;
    }
    candidate &= valid;
    zero &= candidate;
  }

  __device__ float rest_of(unsigned i) const { return (zero >> i & 1U) != 0 ? 0.0F : values[i]; }

  /// These lines leave the cache first, so that it keeps the candidates for the next kernels.
  __device__ void store_rest(float* rest, std::int64_t begin, bool whole) const {
    if (whole) {
#pragma unroll
      for (unsigned v = 0; v < kVectors; ++v) {
        __stcs(reinterpret_cast<float4*>(rest + begin + offset(4 * v)),
               make_float4(rest_of(4 * v), rest_of(4 * v + 1), rest_of(4 * v + 2), rest_of(4 * v + 3)));
      }
      return;
    }
#pragma unroll
    for (unsigned i = 0; i < kPerThread; ++i) {
      if ((valid >> i & 1U) != 0) rest[begin + offset(i)] = rest_of(i);
    }
  }

  /// There was no room for the candidates, so nothing may be zero: `rest` is the only copy of a.
  __device__ void restore(const Search& search, std::int64_t begin, bool whole) {
    bool nonfinite = false;
#pragma unroll
    for (unsigned i = 0; i < kPerThread; ++i) {
      nonfinite = nonfinite || ((zero >> i & 1U) != 0 && key_of(values[i]) >= kNonfiniteKey);
    }
    if (nonfinite) search.state->nonfinite = 1;
    zero = 0;
    store_rest(search.rest, begin, whole);
  }

  /// Candidates of each vector, eight bits each.
  __device__ std::uint32_t counts() const {
    std::uint32_t packed = 0;
#pragma unroll
    for (unsigned v = 0; v < kVectors; ++v) {
      packed |= static_cast<std::uint32_t>(__popc(candidate >> 4 * v & 15U)) << 8 * v;
    }
    return packed;
  }

  /// Stores the candidates' indices and values. `before` has the counts of lower lanes, `all` those of the warp, whose
  /// candidates begin at `start`.
  __device__ void store_candidates(const Search& search, std::int64_t begin, std::uint32_t start, std::uint32_t before,
                                   std::uint32_t all, std::uint32_t* indices, std::uint32_t* bits) const {
    if (candidate == 0) return;
#pragma unroll
    for (unsigned v = 0; v < kVectors; ++v) {
      std::uint64_t at = start + (before >> 8 * v & 255U);
      start += all >> 8 * v & 255U;
#pragma unroll
      for (unsigned i = 4 * v; i < 4 * v + 4; ++i) {
        if ((candidate >> i & 1U) == 0) continue;
        indices[at] = static_cast<std::uint32_t>(begin + offset(i));
        bits[at] = __float_as_uint(values[i]);
        if (key_of(values[i]) >= kNonfiniteKey) search.state->nonfinite = 1;
        ++at;
      }
    }
  }
};

inline __device__ std::uint32_t sum_of_bytes(std::uint32_t packed) {
  return (packed & 255U) + (packed >> 8 & 255U) + (packed >> 16 & 255U) + (packed >> 24);
}

/// Candidates of a tile that are gathered in shared memory. More than these are stored one by one.
inline constexpr unsigned kGathered = 1024;

/// A tile per block. Candidates of a tile are neighbours in the workspace, in a place that one addition reserves.
template <class Number>
__device__ void scan_tile(const Search& search) {
  __shared__ std::uint32_t gathered_indices[kGathered];
  __shared__ std::uint32_t gathered_values[kGathered];
  __shared__ std::uint32_t counts[kThreads / kWarp];
  __shared__ Stored stored;
  const std::int64_t begin = std::int64_t{search.block} * kTile - search.entries.lead;
  const bool whole = begin >= 0 && begin + kTile <= static_cast<std::int64_t>(search.entries.size);
  OfThread mine;
  whole ? mine.load_whole<Number>(search, begin) : mine.load_part<Number>(search, begin);
  wait_for_last_kernel();  // no kernel of this selection has written what was loaded
  mine.compare(search.state->candidate, search.state->zero);
  mine.store_rest(search.rest, begin, whole);

  const std::uint32_t packed = mine.counts();
  const std::uint32_t up_to_here = sum_up_to_lane(packed);  // at most 128 in each byte
  const std::uint32_t all = __shfl_sync(kAllThreadsOfWarp, up_to_here, kWarp - 1);
  if (lane() == 0) counts[warp()] = sum_of_bytes(all);
  __syncthreads();
  std::uint32_t before = 0;
  std::uint32_t total = 0;
#pragma unroll
  for (unsigned i = 0; i < kThreads / kWarp; ++i) {
    before += i < warp() ? counts[i] : 0;
    total += counts[i];
  }
  unsigned long long start = 0;
  if (threadIdx.x == 0 && total > 0) {
    start = atomicAdd(&search.state->found, static_cast<unsigned long long>(total));
  }
  const bool gather = total <= kGathered;
  if (gather) {  // while the addition is under way
    mine.store_candidates(search, begin, before, up_to_here - packed, all, gathered_indices, gathered_values);
  }
  if (threadIdx.x == 0) {
    const bool fits = start + total <= search.candidates.room;
    stored = fits ? Stored{static_cast<std::uint32_t>(start), total} : Stored{0, 0};
    search.candidates.tiles[search.block] = stored;
  }
  __syncthreads();
  if (stored.count != total) return mine.restore(search, begin, whole);
  std::uint32_t* indices = search.candidates.indices + stored.start;
  std::uint32_t* values = search.candidates.values + stored.start;
  if (!gather) return mine.store_candidates(search, begin, before, up_to_here - packed, all, indices, values);
  for (unsigned i = threadIdx.x; i < total; i += kThreads) {
    indices[i] = gathered_indices[i];
    values[i] = gathered_values[i];
  }
}

inline constexpr unsigned kScanBlocks = 3;  ///< on a multiprocessor: registers for eight vectors under way per thread

/// Also clears what the passes count in, afterwards: before, it would take registers from the loads.
template <class Number, class Scores, class Searches>
__global__ void __launch_bounds__(kThreads, kScanBlocks)
    scan_kernel(const __grid_constant__ Searches searches) {
  let_next_kernel_begin();
  const Search search = searches.here();
  scan_tile<Number>(search);
  const std::uint64_t first = std::uint64_t{search.block} * kThreads + threadIdx.x;
  for (std::uint64_t i = first; i < kPasses * kHistogram; i += std::uint64_t{search.blocks} * kThreads) {
    search.histograms[i] = 0;
  }
}

}  // namespace laconic::cuda::search
#endif
