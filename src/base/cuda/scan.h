#pragma once

// Sums over the threads of a block and over blocks.

#include "base/cuda/launch.h"

#ifdef __CUDACC__
namespace laconic::cuda {

inline constexpr unsigned kAllThreadsOfWarp = 0xFFFF'FFFFU;

inline __device__ unsigned lane() { return threadIdx.x % kWarp; }
inline __device__ unsigned warp() { return threadIdx.x / kWarp; }
/// A bit for each lane below this one.
inline __device__ unsigned lower_lanes() { return (1U << lane()) - 1; }

/// The sum over this and all lower lanes. All lanes of the warp call it.
template <class T>
__device__ T sum_up_to_lane(T mine) {
#pragma unroll
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const T below = __shfl_up_sync(kAllThreadsOfWarp, mine, step);
    if (lane() >= step) mine += below;
  }
  return mine;
}

template <class T>
struct SumsOfBlock {
  T before;  ///< over the threads below this one
  T all;
};

/// All kBlockThreads threads of the block call it.
template <unsigned kBlockThreads, class T>
__device__ SumsOfBlock<T> sums_of_block(T mine) {
  constexpr unsigned kWarps = kBlockThreads / kWarp;
  __shared__ T warps[kWarps];
  const T in_warp = sum_up_to_lane(mine);
  if (lane() == kWarp - 1) warps[warp()] = in_warp;
  __syncthreads();
  const T up_to_warp = sum_up_to_lane(lane() < kWarps ? warps[lane()] : T{0});
  const T all = __shfl_sync(kAllThreadsOfWarp, up_to_warp, kWarps - 1);
  const T lower_warps = __shfl_sync(kAllThreadsOfWarp, up_to_warp, (warp() + kWarp - 1) % kWarp);
  __syncthreads();  // the next call writes the same memory
  return {(warp() == 0 ? T{0} : lower_warps) + in_warp - mine, all};
}

/// The sum over all kBlockThreads threads of the block, which all call it.
template <unsigned kBlockThreads>
__device__ std::uint32_t sum_of_block(std::uint32_t mine) {
  constexpr unsigned kWarps = kBlockThreads / kWarp;
  __shared__ std::uint32_t warps[kWarps];
  const std::uint32_t in_warp = __reduce_add_sync(kAllThreadsOfWarp, mine);
  if (lane() == 0) warps[warp()] = in_warp;
  __syncthreads();
  const std::uint32_t sum = __reduce_add_sync(kAllThreadsOfWarp, lane() < kWarps ? warps[lane()] : 0U);
  __syncthreads();  // the next call writes the same memory
  return sum;
}

// Decoupled look-back (Merrill and Garland 2016). A word per block holds the block's own sum or, later, the sum up to
// and including it, with a mark that says which. Words begin at 0.
inline constexpr unsigned long long kOwnSum = 1ULL << 62;
inline constexpr unsigned long long kSumUpToHere = 2ULL << 62;
inline constexpr unsigned long long kSumMask = kOwnSum - 1;

/// The sum over all blocks before this one, whose number is `block` among those that the words belong to. One warp of each
/// block calls it. It waits for earlier blocks only, which were started earlier.
inline __device__ std::uint64_t sum_before_block(unsigned long long* words, std::uint64_t own, unsigned block) {
  volatile unsigned long long* shared_words = words;
  if (lane() == 0) shared_words[block] = (block == 0 ? kSumUpToHere : kOwnSum) | own;
  std::uint64_t before = 0;
  for (std::int64_t end = block; end > 0; end -= kWarp) {
    const std::int64_t earlier = end - 1 - lane();
    unsigned long long word = kSumUpToHere;  // there is nothing before the first block
    do {
      if (earlier >= 0) word = shared_words[earlier];
    } while (__any_sync(kAllThreadsOfWarp, word <= kSumMask));
    const unsigned complete = __ballot_sync(kAllThreadsOfWarp, word >= kSumUpToHere);
    const unsigned last = complete == 0 ? kWarp : static_cast<unsigned>(__ffs(static_cast<int>(complete)));
    std::uint64_t sum = lane() < last ? word & kSumMask : 0;
#pragma unroll
    for (unsigned step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kAllThreadsOfWarp, sum, step);
    before += sum;
    if (complete != 0) break;
  }
  if (lane() == 0 && block > 0) shared_words[block] = kSumUpToHere | (before + own);
  return before;
}

}  // namespace laconic::cuda
#endif
