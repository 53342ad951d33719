#pragma once

// A selection from a short scope: one block holds all entries in its registers.

#include "kernels/topk/cuda/bounds.h"
#include "kernels/topk/cuda/emit.h"

#ifdef __CUDACC__
namespace laconic::cuda::search {

inline constexpr unsigned kMostSmall = 8192;
inline constexpr unsigned kSmallEach = kMostSmall / kSampleThreads;  ///< entries of a thread

/// A thread's entries. A warp has neighbouring ones, 32 at a time.
struct SmallPart {
  float values[kSmallEach];  ///< of a
  std::uint32_t keys[kSmallEach];
  unsigned valid = 0;  ///< a bit for each

  __device__ static unsigned index(unsigned i) { return (warp() * kSmallEach + i) * kWarp + lane(); }
  __device__ bool is_valid(unsigned i) const { return (valid >> i & 1U) != 0; }

  /// True if all are finite.
  template <class Number>
  __device__ bool read(const Search& search) {
    bool finite = true;
#pragma unroll
    for (unsigned i = 0; i < kSmallEach; ++i) {
      const bool inside = index(i) < search.entries.size;
      values[i] = inside ? value_at<Number>(search, index(i)) : 0.0F;
      valid |= inside ? 1U << i : 0U;
      keys[i] = key_of(values[i]);
      finite = finite && keys[i] < kNonfiniteKey;
    }
    return finite;
  }

  /// Each thread scores a part of the support. `rest` may not be written before.
  template <class Number, class Scores>
  __device__ void rescore(const Search& search, const Scores& scores) {
    constexpr std::uint32_t kNone = 0xFFFF'FFFFU;
    __shared__ std::uint32_t scored[kMostSmall];
    for (unsigned i = threadIdx.x; i < kMostSmall; i += kSampleThreads) scored[i] = kNone;
    __syncthreads();
    for (std::uint32_t position = threadIdx.x; position < scores.size; position += kSampleThreads) {
      const std::uint32_t at = scores.indices[position];
      if (at >= search.entries.size) break;
      scored[at] = scores.key_at(position, value_at<Number>(search, at));
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < kSmallEach; ++i) {
      if (is_valid(i) && scored[index(i)] != kNone) keys[i] = scored[index(i)];
    }
  }

  /// What lies before this warp's entries.
  __device__ Ranks ranks_before(std::uint32_t threshold) const {
    std::uint32_t both = 0;  // greater, and equal in the upper half
#pragma unroll
    for (unsigned i = 0; i < kSmallEach; ++i) {
      both += is_valid(i) && keys[i] > threshold ? 1U : 0U;
      both += is_valid(i) && keys[i] == threshold ? 1U << 16 : 0U;
    }
    const std::uint32_t before =
        __shfl_sync(kAllThreadsOfWarp, sums_of_block<kSampleThreads>(both).before, 0);
    return {before & 0xFFFFU, before >> 16};
  }

  /// Entries above the threshold are selected, and the first `equals` at it.
  __device__ void write(const Search& search, std::uint32_t threshold, std::uint32_t equals) const {
    Ranks ranks = ranks_before(threshold);
#pragma unroll
    for (unsigned i = 0; i < kSmallEach; ++i) {
      const Rank rank = rank_in_warp(keys[i], is_valid(i), threshold, equals, ranks);
      if (rank.selected) select_entry(search, index(i), values[i], rank.before);
      if (is_valid(i)) search.rest[index(i)] = rank.selected ? 0.0F : values[i];
    }
  }
};

template <class Number, class Scores, class Searches>
__global__ void __launch_bounds__(kSampleThreads)
    small_kernel(const __grid_constant__ Searches searches, Scores scores) {
  const Search search = searches.here();
  SmallPart part;
  const bool finite = part.read<Number>(search);
  if constexpr (Scores::kRescored) part.rescore<Number>(search, scores.of(search));
  if (__syncthreads_and(finite) == 0) {
    if (threadIdx.x == 0) {
      search.status->nonfinite = 1;
      report(search, *search.last_threshold);
    }
    for (unsigned i = threadIdx.x; i < search.k; i += kSampleThreads) select_entry(search, i, 0.0F, i);
    return;
  }
  RankedKey last{kNonfiniteKey, 0};  // k = 0: nothing
  if (search.k > 0) last = exact_key(part.keys, part.valid, search.k);
  part.write(search, last.key, last.rank);
  if (threadIdx.x == 0) report(search, search.k == 0 ? 0.0F : __uint_as_float(last.key));
}

}  // namespace laconic::cuda::search
#endif
