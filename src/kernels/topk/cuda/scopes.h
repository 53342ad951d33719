#pragma once

// Selection in fixed scopes, in one launch: a block of threads per scope, which it keeps in shared memory if it fits. The
// largest entries of k threads bound the k-th largest entry of the scope from below. Few entries are above such a bound,
// and each of them is ranked against the others. Where that does not apply (k above the number of threads, or many entries
// of about one size), digits of the keys are counted instead.

#include "kernels/topk/cuda/emit.h"

#ifdef __CUDACC__
namespace laconic::cuda::search {

inline constexpr std::uint64_t kMostShared = 8192;  ///< entries of a scope in shared memory
inline constexpr unsigned kBoundBits = 15;          ///< high bits of a key that a bound has: half a percent

/// Entries of a scope that may be selected, in any order.
struct ScopeCandidates {
  std::uint32_t count;  ///< may be more than the lists hold
  std::uint32_t keys[kThreads];
  std::uint32_t places[kThreads];
};

struct Extent {
  bool finite = true;
  std::uint32_t largest = 0;  ///< key
};

/// What is selected from and where it goes to.
struct ScopeTask {
  const float* gradient;
  const float* residual;
  float* rest;
  std::uint64_t size;
  FixedScopes scopes;
  std::uint32_t* indices;
  float* values;
  Status* status;
};

/// The scope of this block.
template <bool kShared>
struct ScopeOfBlock {
  const ScopeTask& task;
  std::uint32_t* shared;  ///< bits of a
  std::uint64_t begin;
  std::uint32_t size;
  std::uint32_t k;

  __device__ std::uint32_t bits(std::uint32_t i) const {
    return kShared ? shared[i] : __float_as_uint(task.rest[begin + i]);
  }

  /// a = gradient + residual. What this thread read.
  __device__ Extent read() const {
    constexpr unsigned kAtOnce = 8;  // loads under way before the first store
    Extent extent;
    for (std::uint32_t first = threadIdx.x; first < size; first += kAtOnce * kThreads) {
      float a[kAtOnce];
#pragma unroll
      for (unsigned j = 0; j < kAtOnce; ++j) {
        const std::uint32_t i = first + j * kThreads;
        a[j] = i < size ? with_residual(task.gradient[begin + i], task.residual[begin + i]) : 0.0F;
      }
#pragma unroll
      for (unsigned j = 0; j < kAtOnce; ++j) {
        const std::uint32_t i = first + j * kThreads;
        if (i >= size) break;
        task.rest[begin + i] = a[j];
        if (kShared) shared[i] = __float_as_uint(a[j]);
        extent.largest = max(extent.largest, key_of(a[j]));
      }
    }
    extent.finite = extent.largest < kNonfiniteKey;
    return extent;
  }

  /// A key that the largest entries of k threads reach.
  __device__ std::uint32_t bound(std::uint32_t largest) const {
    std::uint32_t reached = 0;
    for (unsigned bit = 31; bit-- > 31 - kBoundBits;) {
      const std::uint32_t tried = reached | 1U << bit;
      if (static_cast<std::uint32_t>(__syncthreads_count(largest >= tried)) >= k) reached = tried;
    }
    return reached;
  }

  /// Selects by rank from the entries that reach the bound. False if there are more of them than threads.
  __device__ bool select_above(std::uint32_t bound) const {
    __shared__ ScopeCandidates found;
    if (threadIdx.x == 0) found.count = 0;
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < size; i += kThreads) {
      const std::uint32_t key = magnitude_bits(bits(i));
      if (key < bound) continue;
      const std::uint32_t at = atomicAdd(&found.count, 1U);
      if (at >= kThreads) continue;
      found.keys[at] = key;
      found.places[at] = i;
    }
    __syncthreads();
    const std::uint32_t count = found.count;
    if (count > kThreads) return false;
    const bool here = threadIdx.x < count;
    const std::uint32_t key = here ? found.keys[threadIdx.x] : 0;
    const std::uint32_t own = here ? found.places[threadIdx.x] : 0;
    std::uint32_t larger = 0;
    for (std::uint32_t j = 0; here && j < count; ++j) {
      larger += found.keys[j] > key || (found.keys[j] == key && found.places[j] < own) ? 1 : 0;
    }
    const bool selected = here && larger < k;
    __syncthreads();
    if (here && !selected) found.places[threadIdx.x] = size;  // behind all that are selected
    __syncthreads();
    if (!selected) return true;
    std::uint64_t out = std::uint64_t{blockIdx.x} * task.scopes.keep;
    for (std::uint32_t j = 0; j < count; ++j) out += found.places[j] < own ? 1 : 0;
    task.indices[out] = static_cast<std::uint32_t>(begin + own);
    task.values[out] = __uint_as_float(bits(own));
    task.rest[begin + own] = 0.0F;
    return true;
  }

  /// The digit of kWidth bits from `shift` on of the key of that rank, among those whose bits above it are `prefix`.
  template <unsigned kWidth>
  __device__ Bin digit(std::uint32_t rank, unsigned shift, std::uint32_t prefix) const {
    __shared__ std::uint32_t bins[1U << kWidth];
    for (unsigned i = threadIdx.x; i < 1U << kWidth; i += kThreads) bins[i] = 0;
    __syncthreads();
    Counter counter(bins);
    for (std::uint32_t i = threadIdx.x; i < size; i += kThreads) {
      const std::uint32_t digits = magnitude_bits(bits(i)) >> shift;
      if (digits >> kWidth == prefix) counter.add(digits & ((1U << kWidth) - 1));
    }
    counter.flush();
    __syncthreads();
    return find_bin<kThreads, 1U << kWidth>(rank, [&](unsigned i) { return bins[i]; });
  }

  /// Writes the entries above the threshold and the first `equals` at it. A warp has neighbouring entries.
  __device__ void emit(std::uint32_t threshold, std::uint32_t equals) const {
    constexpr unsigned kWarps = kThreads / kWarp;
    const std::uint32_t each = (size + kThreads - 1) / kThreads * kWarp;
    const std::uint32_t first = warp() * each;
    const std::uint32_t end = min(first + each, size);
    Ranks mine{0, 0};
    for (std::uint32_t i = first + lane(); i < end; i += kWarp) {
      const std::uint32_t key = magnitude_bits(bits(i));
      mine.greater += key > threshold ? 1 : 0;
      mine.equal += key == threshold ? 1 : 0;
    }
    __shared__ Ranks warps[kWarps];
    mine.greater = __reduce_add_sync(kAllThreadsOfWarp, mine.greater);
    mine.equal = __reduce_add_sync(kAllThreadsOfWarp, mine.equal);
    if (lane() == 0) warps[warp()] = mine;
    __syncthreads();
    Ranks ranks{0, 0};
    for (unsigned i = 0; i < warp(); ++i) {
      ranks.greater += warps[i].greater;
      ranks.equal += warps[i].equal;
    }
    const std::uint64_t out = std::uint64_t{blockIdx.x} * task.scopes.keep;
    for (std::uint32_t at = first; at < end; at += kWarp) {
      const std::uint32_t i = at + lane();
      const bool valid = i < end;
      const std::uint32_t own = valid ? bits(i) : 0;
      const Rank rank = rank_in_warp(magnitude_bits(own), valid, threshold, equals, ranks);
      if (!rank.selected) continue;
      task.indices[out + rank.before] = static_cast<std::uint32_t>(begin + i);
      task.values[out + rank.before] = __uint_as_float(own);
      task.rest[begin + i] = 0.0F;
    }
  }

  /// Valid indices and values of 0.
  __device__ void give_up() const {
    const std::uint64_t out = std::uint64_t{blockIdx.x} * task.scopes.keep;
    for (std::uint32_t i = threadIdx.x; i < k; i += kThreads) {
      task.indices[out + i] = static_cast<std::uint32_t>(begin + i);
      task.values[out + i] = 0.0F;
    }
    if (threadIdx.x == 0) task.status->nonfinite = 1;
  }
};

template <bool kShared>
__global__ void __launch_bounds__(kThreads) scopes_kernel(ScopeTask task) {
  extern __shared__ std::uint32_t bits_of_scope[];
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * task.scopes.each;
  const std::uint64_t left = task.size - begin;
  const ScopeOfBlock<kShared> scope{task, bits_of_scope, begin,
                                    static_cast<std::uint32_t>(left < task.scopes.each ? left : task.scopes.each),
                                    static_cast<std::uint32_t>(task.scopes.keep_of(blockIdx.x, task.size))};
  if (threadIdx.x == 0 && blockIdx.x == 0) task.status->count = task.scopes.selected(task.size);
  const Extent extent = scope.read();
  if (__syncthreads_and(extent.finite ? 1 : 0) == 0) return scope.give_up();
  if (scope.k == 0) return;
  if (scope.k <= kThreads && scope.select_above(scope.bound(extent.largest))) return;
  // Digits of 11, 10 and 10 bits.
  const Bin high = scope.template digit<11>(scope.k, 20, 0);
  const Bin middle = scope.template digit<10>(scope.k - high.above, 10, high.index);
  const std::uint32_t prefix = high.index << 10 | middle.index;
  const std::uint32_t rank = scope.k - high.above - middle.above;
  const Bin low = scope.template digit<10>(rank, 0, prefix);
  scope.emit(prefix << 10 | low.index, rank - low.above);
}

}  // namespace laconic::cuda::search
#endif
