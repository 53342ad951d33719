#pragma once

// Selection in fixed scopes, in one launch: a block of threads a scope, which it keeps in shared memory if it fits.

#include "kernels/topk/cuda/emit.h"

#ifdef __CUDACC__
namespace laconic::cuda::search {

inline constexpr std::uint64_t kMostShared = 8192;  ///< entries of a scope in shared memory

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

  /// a = gradient + residual. True if all of the thread's entries are finite.
  __device__ bool read() const {
    constexpr unsigned kAtOnce = 8;  // loads under way before the first store
    bool finite = true;
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
        finite = finite && key_of(a[j]) < kNonfiniteKey;
      }
    }
    return finite;
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
  if (__syncthreads_and(scope.read()) == 0) return scope.give_up();
  if (scope.k == 0) return;
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
