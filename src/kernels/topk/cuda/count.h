#pragma once

// The passes that find the threshold. Each narrows the window with a histogram; the last block to finish reads it.

#include "kernels/topk/cuda/bins.h"
#include "kernels/topk/cuda/walk.h"

#ifdef __CUDACC__
namespace laconic::cuda::search {

inline constexpr unsigned kCountBlocks = 5;  ///< on a multiprocessor
inline constexpr unsigned kMostCountBlocks = kCountBlocks * 132;
inline constexpr unsigned kKeysPerBlock = 2048;    ///< fewer candidates are not worth a block

inline __device__ void count_key(Counter& counter, const Window& window, std::uint32_t key, bool valid) {
  if (!valid || key < window.low) return;
  const std::uint32_t bin = (key - window.low) >> window.shift;
  counter.add(bin < window.bins ? bin : kAboveWindow);
}

/// A thread's entries from `at` on and before `end`, one block width apart.
template <unsigned kCount>
__device__ void load_entries(const std::uint32_t* from, std::uint64_t at, std::uint64_t end,
                             std::uint32_t (&entries)[kCount]) {
#pragma unroll
  for (unsigned i = 0; i < kCount; ++i) {
    const std::uint64_t own = at + i * kThreads + threadIdx.x;
    entries[i] = own < end ? from[own] : 0;
  }
}
template <unsigned kCount>
__device__ void store_entries(std::uint32_t* to, std::uint64_t at, std::uint64_t end,
                              const std::uint32_t (&entries)[kCount]) {
#pragma unroll
  for (unsigned i = 0; i < kCount; ++i) {
    const std::uint64_t own = at + i * kThreads + threadIdx.x;
    if (own < end) to[own] = entries[i];
  }
}

/// This block's range of the candidates. The first pass over them also computes their keys, if these are not values.
template <unsigned kPass, class Scores>
__device__ void count_candidates(const Search& search, const Scores& scores, const Window& window, unsigned blocks,
                                 Counter& counter) {
  constexpr bool kRescoring = Scores::kRescored && kPass == kCoarse;
  constexpr unsigned kAtOnce = kRescoring ? 4 : 8;  // as many as there are registers for
  const std::uint64_t found = search.state->found;
  const std::uint64_t begin = found * search.block / blocks;
  const std::uint64_t end = found * (search.block + 1) / blocks;
  for (std::uint64_t at = begin; at < end; at += kAtOnce * kThreads) {
    std::uint32_t keys[kAtOnce];
    load_entries(kRescoring ? search.candidates.values : search.candidates.keys, at, end, keys);
    if constexpr (kRescoring) {
      std::uint32_t indices[kAtOnce];
      load_entries(search.candidates.indices, at, end, indices);
      scores.keys_of(search.entries, indices, keys);
      store_entries(search.candidates.keys, at, end, keys);
    }
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i) {
      count_key(counter, window, magnitude_bits(keys[i]), at + i * kThreads + threadIdx.x < end);
    }
  }
}

/// Puts back what the scan set to zero in a tile, so that `rest` holds a. For one warp.
inline __device__ void restore_tile(const Search& search, std::uint64_t tile) {
  const std::uint32_t zero = search.state->zero;
  const auto restore = [&](std::uint32_t index, float value, std::uint32_t, bool valid) {
    if (valid && key_of(value) >= zero) search.rest[index] = value;
  };
  for_each_candidate<Magnitudes>(search.candidates, tile, tile + 1, restore);
  __syncwarp();
}

/// This block's range of all entries; in the first pass also those above and at the expected threshold.
template <unsigned kPass, class Scores>
__device__ void count_everything(const Search& search, const Scores& scores, const Window& window, std::uint32_t* bins,
                                 Counter& counter) {
  constexpr unsigned kWarps = kThreads / kWarp;
  const bool restore = kPass == kFirst && search.candidates.tiles != nullptr;
  const std::uint32_t expected = search.state->expected;
  std::uint32_t above = 0;
  std::uint32_t equal = 0;
  const std::uint64_t tiles = search.entries.tiles();
  for (std::uint64_t tile = search.block * kWarps + warp(); tile < tiles; tile += search.blocks * kWarps) {
    if (restore) restore_tile(search, tile);
    for_each_in_tile(search.entries, scores, tile, [&](std::uint32_t, float, std::uint32_t key, bool valid) {
      count_key(counter, window, key, valid);
      above += valid && key > expected ? 1 : 0;
      equal += valid && key == expected ? 1 : 0;
    });
  }
  if (kPass != kFirst) return;
  above = __reduce_add_sync(kAllThreadsOfWarp, above);
  equal = __reduce_add_sync(kAllThreadsOfWarp, equal);
  if (lane() != 0) return;
  atomicAdd(bins + kAboveExpected, above);
  atomicAdd(bins + kAtExpected, equal);
}

/// Adds the block's histogram to the pass's. True in all threads of the last one of `blocks` blocks to do so.
inline __device__ bool add_bins(const std::uint32_t* bins, std::uint32_t* histogram, std::uint32_t* finished,
                                unsigned blocks) {
  __shared__ bool is_last;
  __syncthreads();
  for (unsigned i = threadIdx.x; i < kHistogram; i += kThreads) {
    if (bins[i] != 0) atomicAdd(histogram + i, bins[i]);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(finished, 1U) == blocks - 1;
  __syncthreads();
  __threadfence();
  return is_last;
}

inline __device__ Bin find_in_histogram(const std::uint32_t* histogram, std::uint32_t rank) {
  return find_bin<kThreads, kBins>(rank, [=](unsigned i) { return __ldcg(histogram + i); });
}

inline __device__ Window narrowed(const Window& window, const Bin& bin) {
  const std::uint32_t shift = window.shift > kBinBits ? window.shift - kBinBits : 0;
  return {window.low + (bin.index << window.shift), shift, 1U << (window.shift - shift), window.rank - bin.above};
}

/// Whether the candidates contain the k largest, and what follows. For the last block of the coarse pass.
inline __device__ void judge_candidates(const Search& search, const std::uint32_t* histogram) {
  State& state = *search.state;
  const std::uint32_t above = __ldcg(histogram + kAboveWindow);
  const bool ordinary = state.nonfinite == 0 && search.k > 0;
  bool serves = ordinary && state.found <= search.candidates.room && above < search.k;
  Bin bin{};
  if (serves) bin = find_in_histogram(histogram, search.k - above);
  serves = serves && bin.found;
  if (threadIdx.x != 0) return;
  if (serves) {
    state.window.rank -= above;
    state.window = narrowed(state.window, bin);
  } else if (ordinary) {
    state.mode = Mode::everything;
    state.window = {0, 31 - kBinBits, kBins, search.k};
    atomicAdd(&search.status->rescans, 1);
  } else {
    if (state.nonfinite != 0) search.status->nonfinite = 1;
    report(search, state.nonfinite != 0 ? *search.last_threshold : 0.0F);
    state.mode = state.nonfinite != 0 ? Mode::give_up : Mode::nothing;
  }
}

/// For the last block of the other passes.
inline __device__ void narrow_window(const Search& search, const std::uint32_t* histogram, unsigned pass) {
  State& state = *search.state;
  const std::uint32_t rank = state.window.rank;
  const Bin bin = find_in_histogram(histogram, rank);
  if (threadIdx.x != 0) return;
  const std::uint32_t above = __ldcg(histogram + kAboveExpected);
  if (pass == kFirst && above < rank && rank - above <= __ldcg(histogram + kAtExpected)) {
    state.exact = 1;
    state.window = {state.expected, 0, 1, rank - above};
  } else {
    state.window = narrowed(state.window, bin);
  }
  if ((pass != kLast && state.exact == 0) || search.status == nullptr) return;
  report(search, __uint_as_float(state.window.low));
}

/// How many blocks have work in a pass. It must not depend on what the last of them writes, since idle ones may start
/// later.
inline __device__ unsigned working_blocks(const Search& search, unsigned pass) {
  const State& state = *search.state;
  const bool everything = pass != kCoarse && state.mode == Mode::everything;
  if (everything) return pass != kFirst && state.exact != 0 ? 0 : search.blocks;
  if (pass == kFirst || pass == kSecond) return 0;
  if (pass == kLast && state.mode != Mode::candidates) return 0;
  if (state.found > search.candidates.room) return 1;  // which then judges
  const std::uint64_t blocks = (state.found + kKeysPerBlock - 1) / kKeysPerBlock;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < search.blocks ? blocks : search.blocks);
}

template <unsigned kPass, class Scores, class Searches>
__global__ void __launch_bounds__(kThreads, kCountBlocks)
    count_kernel(const __grid_constant__ Searches searches, Scores scores) {
  let_next_kernel_begin();
  const Search search = searches.here();
  __shared__ std::uint32_t bins[kHistogram];
  for (unsigned i = threadIdx.x; i < kHistogram; i += kThreads) bins[i] = 0;
  wait_for_last_kernel();
  const unsigned blocks = working_blocks(search, kPass);
  if (search.block >= blocks) return;
  __syncthreads();
  const State& state = *search.state;
  const Window window = state.window;
  Counter counter(bins);
  if (kPass != kCoarse && state.mode == Mode::everything) {
    count_everything<kPass>(search, scores.of(search), window, bins, counter);
  } else if ((kPass == kCoarse || kPass == kLast) && state.found <= search.candidates.room) {
    count_candidates<kPass>(search, scores.of(search), window, blocks, counter);
  }
  counter.flush();
  std::uint32_t* histogram = search.histograms + kPass * kHistogram;
  if (!add_bins(bins, histogram, search.state->finished + kPass, blocks)) return;
  kPass == kCoarse ? judge_candidates(search, histogram) : narrow_window(search, histogram, kPass);
}

}  // namespace laconic::cuda::search
#endif
