#pragma once

// Selection in fixed scopes, in one launch. A block of threads takes one scope after another and holds it in its
// registers. While it ranks, the next scope is on its way. Entries that reach a bound are candidates. The bound comes
// from the scope before, or from the largest entries of k threads, which the k-th largest entry of the scope reaches. A
// thread ranks each candidate against the others. Where that does not apply (long scopes, k above the number of
// threads, or many entries of about one size), digits of the keys are counted instead.

#include <algorithm>

#include "kernels/topk/cuda/bins.h"
#include "kernels/topk/cuda/emit.h"

#ifdef __CUDACC__
namespace laconic::cuda::search {

inline constexpr unsigned kHeld = 16;  ///< entries of a scope that a thread holds
inline constexpr std::uint64_t kMostHeld = std::uint64_t{kHeld} * kThreads;
inline constexpr unsigned kScopeBlocks = 4;  ///< on a multiprocessor
inline constexpr unsigned kBoundBits = 15;   ///< high bits of a key that a bound has: half a percent
inline constexpr float kNextBound = 0.94F;  ///< of the last value selected, for the next scope: about half as many again

/// What is selected from and where it goes to.
struct ScopeTask {
  const void* gradient;  ///< of the type that kernels are compiled for
  const float* residual;
  float* rest;
  std::uint64_t size;
  FixedScopes scopes;
  unsigned count;  ///< of scopes
  std::uint32_t* indices;
  float* values;
  Status* status;
};

/// A thread's entries of a scope. A warp has neighbouring ones, 32 at a time. Entries behind the scope's end are 0.
struct Held {
  float values[kHeld];

  __device__ static std::uint32_t first() { return warp() * kHeld * kWarp + lane(); }
  __device__ static std::uint32_t index(unsigned i) { return first() + i * kWarp; }
};

// An entry that is on its way is held as it comes: widening it would wait for it.
inline __device__ float as_it_came(float value) { return value; }
template <class Number>
__device__ float as_it_came(Number value) {
  return __uint_as_float(value.bits);
}
template <class Number>
__device__ float widened_later(float held) {
  if constexpr (std::is_same_v<Number, float>) return held;
  else return widened(Number{static_cast<std::uint16_t>(__float_as_uint(held))});
}

/// Entries of a scope that may be selected, by ascending index.
struct ScopeCandidates {
  alignas(uint4) std::uint32_t keys[kThreads];
  std::uint32_t places[kThreads];
};

/// One scope, which a block works on.
struct ScopeOfBlock {
  const ScopeTask& task;
  std::uint64_t begin;
  std::uint64_t out;  ///< where its selected entries begin
  std::uint32_t size;
  std::uint32_t k;

  __device__ ScopeOfBlock(const ScopeTask& of, unsigned number)
      : task(of),
        begin(number * of.scopes.each),
        out(number * of.scopes.keep),
        size(number < of.count ? static_cast<std::uint32_t>(min(of.scopes.each, of.size - begin)) : 0),
        k(static_cast<std::uint32_t>(number + 1 < of.count ? of.scopes.keep : of.scopes.last_keep)) {}

  __device__ std::uint32_t bits(std::uint32_t i) const { return __float_as_uint(task.rest[begin + i]); }

  /// Entries from the thread's first one to the scope's end. Compared with i * kWarp: so no index takes a register.
  __device__ std::uint32_t left() const { return size > Held::first() ? size - Held::first() : 0; }

  template <class Number>
  __device__ void load(Held& gradient, Held& residual) const {
    const Number* from = static_cast<const Number*>(task.gradient) + begin + Held::first();
    const float* residual_from = task.residual + begin + Held::first();
    const std::uint32_t end = left();
#pragma unroll
    for (unsigned i = 0; i < kHeld; ++i) {
      gradient.values[i] = i * kWarp < end ? as_it_came(from[i * kWarp]) : 0.0F;
      residual.values[i] = i * kWarp < end ? residual_from[i * kWarp] : 0.0F;
    }
  }

  /// a = gradient + residual, in `rest`, and its magnitude in `values`: signs would take registers. The largest key of
  /// this thread.
  template <class Number>
  __device__ std::uint32_t put(Held& values, const Held& residual) const {
    float* to = task.rest + begin + Held::first();
    const std::uint32_t end = left();
    std::uint32_t largest = 0;
#pragma unroll
    for (unsigned i = 0; i < kHeld; ++i) {
      const float a = with_residual(widened_later<Number>(values.values[i]), residual.values[i]);
      if (i * kWarp < end) to[i * kWarp] = a;
      values.values[i] = fabsf(a);
      largest = max(largest, __float_as_uint(values.values[i]));
    }
    return largest;
  }

  /// The same for a scope of any length, of which nothing is held.
  template <class Number>
  __device__ std::uint32_t read() const {
    const Number* gradient = static_cast<const Number*>(task.gradient) + begin;
    constexpr unsigned kAtOnce = 8;  // loads under way before the first store
    std::uint32_t largest = 0;
    for (std::uint32_t first = threadIdx.x; first < size; first += kAtOnce * kThreads) {
      float a[kAtOnce];
#pragma unroll
      for (unsigned j = 0; j < kAtOnce; ++j) {
        const std::uint32_t i = first + j * kThreads;
        a[j] = i < size ? with_residual(widened(gradient[i]), task.residual[begin + i]) : 0.0F;
      }
#pragma unroll
      for (unsigned j = 0; j < kAtOnce; ++j) {
        const std::uint32_t i = first + j * kThreads;
        if (i < size) task.rest[begin + i] = a[j];
        largest = max(largest, key_of(a[j]));
      }
    }
    return largest;
  }

  /// A key that the largest entries of k threads reach.
  __device__ std::uint32_t bound(std::uint32_t largest) const {
    std::uint32_t reached = 0;
#pragma unroll 1  // registers are for the fast way
    for (unsigned bit = 31; bit-- > 31 - kBoundBits;) {
      const std::uint32_t tried = reached | 1U << bit;
      if (static_cast<std::uint32_t>(__syncthreads_count(largest >= tried)) >= k) reached = tried;
    }
    return reached;
  }

  /// Gathers the entries that reach the bound. How many they are; 0 if fewer than k or more than there is room for.
  __device__ std::uint32_t gather(const Held& magnitudes, std::uint32_t bound, ScopeCandidates& found) const {
    __shared__ std::uint32_t warps[kThreads / kWarp];
    std::uint32_t mine = 0;
#pragma unroll
    for (const float magnitude : magnitudes.values) mine += __float_as_uint(magnitude) >= bound ? 1 : 0;
    mine = __reduce_add_sync(kAllThreadsOfWarp, mine);
    if (lane() == 0) warps[warp()] = mine;
    __syncthreads();
    std::uint32_t at = 0, count = 0;
#pragma unroll 2  // registers are for the scope that is on its way
    for (unsigned i = 0; i < kThreads / kWarp; ++i) {
      at += i < warp() ? warps[i] : 0;
      count += warps[i];
    }
    if (bound == 0 || count < k || count > kThreads) return 0;
    if (threadIdx.x >= count) found.keys[threadIdx.x] = 0;  // larger than no other
#pragma unroll
    for (unsigned i = 0; i < kHeld; ++i) {
      const std::uint32_t key = __float_as_uint(magnitudes.values[i]);
      const bool reaches = key >= bound;
      const unsigned reaching = __ballot_sync(kAllThreadsOfWarp, reaches);
      if (reaches) {
        const std::uint32_t own = at + static_cast<std::uint32_t>(__popc(reaching & lower_lanes()));
        found.keys[own] = key;
        found.places[own] = Held::index(i);
      }
      at += static_cast<std::uint32_t>(__popc(reaching));
    }
    return count;
  }

  /// Those of the block's candidates that are selected, as a thread sees them.
  struct Chosen {
    std::uint32_t count;
    std::uint32_t before;  ///< in earlier warps
    std::uint32_t last;    ///< the smallest key
  };
  __device__ static Chosen share_choice(bool selected, std::uint32_t key) {
    __shared__ std::uint32_t counts[kThreads / kWarp];
    __shared__ std::uint32_t smallest[kThreads / kWarp];
    const unsigned of_warp = __ballot_sync(kAllThreadsOfWarp, selected);
    const std::uint32_t least = __reduce_min_sync(kAllThreadsOfWarp, selected ? key : kNonfiniteKey);
    if (lane() == 0) {
      counts[warp()] = static_cast<std::uint32_t>(__popc(of_warp));
      smallest[warp()] = least;
    }
    __syncthreads();
    Chosen chosen{0, 0, kNonfiniteKey};
#pragma unroll 2  // as in gather
    for (unsigned i = 0; i < kThreads / kWarp; ++i) {
      chosen.count += counts[i];
      chosen.before += i < warp() ? counts[i] : 0;
      chosen.last = min(chosen.last, smallest[i]);
    }
    return chosen;
  }

  /// Selects the k largest candidates. A thread ranks one of them. The smallest key selected.
  __device__ std::uint32_t select(std::uint32_t count, const ScopeCandidates& found) const {
    __syncthreads();
    const bool valid = threadIdx.x < count;
    const std::uint32_t key = found.keys[threadIdx.x];
    std::uint32_t larger = 0;
#pragma unroll 1  // as above
    for (std::uint32_t i = 0; i < count && warp() * kWarp < count; i += 4) {
      const uint4 others = *reinterpret_cast<const uint4*>(found.keys + i);
      larger += others.x > key ? 1 : 0;
      larger += others.y > key ? 1 : 0;
      larger += others.z > key ? 1 : 0;
      larger += others.w > key ? 1 : 0;
    }
    bool selected = valid && larger < k;
    Chosen chosen = share_choice(selected, key);
    if (chosen.count > k) {  // of equal keys, the first ones
#pragma unroll 1  // as above
      for (std::uint32_t i = 0; i < threadIdx.x && selected; ++i) larger += found.keys[i] == key ? 1 : 0;
      selected = selected && larger < k;
      __syncthreads();
      chosen = share_choice(selected, key);
    }
    const unsigned of_warp = __ballot_sync(kAllThreadsOfWarp, selected);
    if (selected) {
      const std::uint64_t at = out + chosen.before + static_cast<std::uint32_t>(__popc(of_warp & lower_lanes()));
      const std::uint64_t own = begin + found.places[threadIdx.x];
      task.indices[at] = static_cast<std::uint32_t>(own);
      task.values[at] = task.rest[own];
      task.rest[own] = 0.0F;
    }
    return chosen.last;
  }

  /// The digit of kWidth bits from `shift` on of the key of that rank, among those whose bits above it are `prefix`.
  template <unsigned kWidth>
  __device__ Bin digit(std::uint32_t rank, unsigned shift, std::uint32_t prefix) const {
    __shared__ std::uint32_t bins[1U << kWidth];
    for (unsigned i = threadIdx.x; i < 1U << kWidth; i += kThreads) bins[i] = 0;
    __syncthreads();
    Counter counter(bins);
#pragma unroll 1  // registers are for the fast way
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
#pragma unroll 1  // registers are for the fast way
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
#pragma unroll 1  // registers are for the fast way
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

  __device__ void select_by_digits() const {
    // Digits of 11, 10 and 10 bits.
    const Bin high = digit<11>(k, 20, 0);
    const Bin middle = digit<10>(k - high.above, 10, high.index);
    const std::uint32_t prefix = high.index << 10 | middle.index;
    const std::uint32_t rank = k - high.above - middle.above;
    const Bin low = digit<10>(rank, 0, prefix);
    emit(prefix << 10 | low.index, rank - low.above);
  }

  /// Valid indices and values of 0.
  __device__ void give_up() const {
#pragma unroll 1  // registers are for the fast way
    for (std::uint32_t i = threadIdx.x; i < k; i += kThreads) {
      task.indices[out + i] = static_cast<std::uint32_t>(begin + i);
      task.values[out + i] = 0.0F;
    }
    if (threadIdx.x == 0) task.status->nonfinite = 1;
  }
};

inline __device__ bool all_finite(std::uint32_t largest) { return __syncthreads_and(largest < kNonfiniteKey) != 0; }

template <class Number>
__global__ void __launch_bounds__(kThreads, kScopeBlocks) scopes_kernel(ScopeTask task) {
  __shared__ ScopeCandidates found;
  if (threadIdx.x == 0 && blockIdx.x == 0) task.status->count = task.scopes.selected(task.size);
  Held values, residual;
  ScopeOfBlock(task, blockIdx.x).load<Number>(values, residual);
  std::uint32_t guess = 0;
  for (unsigned number = blockIdx.x; number < task.count; number += gridDim.x) {
    const ScopeOfBlock scope(task, number);
    const std::uint32_t largest = scope.put<Number>(values, residual);
    const bool finite = all_finite(largest);
    std::uint32_t count = 0;
    bool searches = finite && scope.k > 0 && scope.k <= kThreads;
    while (searches && count == 0) {
      searches = guess != 0;  // then there is a second try
      count = scope.gather(values, searches ? guess : scope.bound(largest), found);
      guess = 0;
    }
    if (!finite) {
      scope.give_up();
    } else if (scope.k > 0 && count == 0) {
      scope.select_by_digits();  // nothing is on its way meanwhile: there are not enough registers
    }
    // Entries of 16 bits also behind the last scope, where nothing is: else those of this one would keep registers that
    // the second address needs. Floats have one address for both, and are faster without.
    if (!std::is_same_v<Number, float> || number + gridDim.x < task.count) {
      ScopeOfBlock(task, number + gridDim.x).load<Number>(values, residual);
    }
    if (count > 0) guess = key_of(__uint_as_float(scope.select(count, found)) * kNextBound);
  }
}

/// A block for each.
template <class Number>
__global__ void __launch_bounds__(kThreads) long_scopes_kernel(ScopeTask task) {
  if (threadIdx.x == 0 && blockIdx.x == 0) task.status->count = task.scopes.selected(task.size);
  const ScopeOfBlock scope(task, blockIdx.x);
  if (!all_finite(scope.read<Number>())) return scope.give_up();
  if (scope.k > 0) scope.select_by_digits();
}

/// Enough blocks to occupy a device; a block has more than one scope only if there are many.
inline unsigned blocks_for_scopes(unsigned count) {
  constexpr unsigned kLeast = 512, kEach = 16;
  return std::max(std::min(count, kLeast), (count + kEach - 1) / kEach);
}

}  // namespace laconic::cuda::search
#endif
