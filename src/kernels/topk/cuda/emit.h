#pragma once

// The last kernel: entries above the threshold, and of those at it the first ones, by ascending index.

#include "kernels/topk/cuda/walk.h"

#ifdef __CUDACC__
namespace laconic::cuda::search {

/// Entries above and at the threshold.
struct Ranks {
  std::uint32_t greater;
  std::uint32_t equal;

  /// How many are selected, of which at most `equals` are at the threshold.
  __device__ std::uint32_t selected(std::uint32_t equals) const { return greater + min(equal, equals); }
};

/// Whether an entry is selected, and how many of those with lower indices are.
struct Rank {
  bool selected;
  std::uint32_t before;
};

/// For a warp's 32 neighbouring entries. `ranks` is of those before them, and afterwards includes them.
inline __device__ Rank rank_in_warp(std::uint32_t key, bool valid, std::uint32_t threshold, std::uint32_t equals,
                                    Ranks& ranks) {
  const unsigned greater = __ballot_sync(kAllThreadsOfWarp, valid && key > threshold);
  const unsigned equal = __ballot_sync(kAllThreadsOfWarp, valid && key == threshold);
  const Ranks here{ranks.greater + static_cast<std::uint32_t>(__popc(greater & lower_lanes())),
                   ranks.equal + static_cast<std::uint32_t>(__popc(equal & lower_lanes()))};
  ranks.greater += static_cast<std::uint32_t>(__popc(greater));
  ranks.equal += static_cast<std::uint32_t>(__popc(equal));
  const bool selected = key > threshold || (key == threshold && here.equal < equals);
  return {valid && selected, here.selected(equals)};
}

/// What lies before this warp's tiles, given what lies in them. All threads of the block call it.
inline __device__ Ranks ranks_before_warp(const Search& search, Ranks mine) {
  constexpr unsigned kWarps = kThreads / kWarp;
  __shared__ Ranks warps[kWarps];
  __shared__ Ranks earlier_blocks;
  mine.greater = __reduce_add_sync(kAllThreadsOfWarp, mine.greater);
  mine.equal = __reduce_add_sync(kAllThreadsOfWarp, mine.equal);
  if (lane() == 0) warps[warp()] = mine;
  __syncthreads();
  Ranks before{0, 0};
  Ranks all{0, 0};
#pragma unroll
  for (unsigned i = 0; i < kWarps; ++i) {
    before.greater += i < warp() ? warps[i].greater : 0;
    before.equal += i < warp() ? warps[i].equal : 0;
    all.greater += warps[i].greater;
    all.equal += warps[i].equal;
  }
  if (warp() == 0) {
    const std::uint64_t greater = sum_before_block(search.greater, all.greater, search.block);
    if (lane() == 0) earlier_blocks.greater = static_cast<std::uint32_t>(greater);
  } else if (warp() == 1) {
    const std::uint64_t equal = sum_before_block(search.equal, all.equal, search.block);
    if (lane() == 0) earlier_blocks.equal = static_cast<std::uint32_t>(equal);
  }
  __syncthreads();
  return {earlier_blocks.greater + before.greater, earlier_blocks.equal + before.equal};
}

/// Calls body(index, value, selected, before) for each entry of the block's tiles, where `before` of those with lower
/// indices are selected. walk(first_tile, end_tile, body) goes through tiles. If only the selected are of interest, a
/// warp that has none does not read its tiles again.
template <bool kOnlySelected, class Walk, class Body>
__device__ void for_each_ranked(const Search& search, Walk walk, Body body) {
  const std::uint32_t threshold = search.state->window.low;
  const std::uint32_t equals = search.state->window.rank;
  const std::uint64_t tiles = search.entries.tiles();
  const std::uint32_t each = tiles_per_warp(tiles);
  const std::uint64_t first_tile = (std::uint64_t{search.block} * kThreads / kWarp + warp()) * each;
  const std::uint64_t end = min(first_tile + each, tiles);

  Ranks ranks{0, 0};
  walk(first_tile, end, [&](std::uint32_t, float, std::uint32_t key, bool valid) {
    ranks.greater += valid && key > threshold ? 1 : 0;
    ranks.equal += valid && key == threshold ? 1 : 0;
  });
  const Ranks mine = ranks;
  ranks = ranks_before_warp(search, ranks);
  const bool has_selected = mine.greater > 0 || (mine.equal > 0 && ranks.equal < equals);
  if (kOnlySelected && !__any_sync(kAllThreadsOfWarp, has_selected)) return;
  walk(first_tile, end, [&](std::uint32_t index, float value, std::uint32_t key, bool valid) {
    const Rank rank = rank_in_warp(key, valid, threshold, equals, ranks);
    if (valid) body(index, value, rank.selected, rank.before);
  });
}

/// `index` counts from the scope's start.
inline __device__ void select_entry(const Search& search, std::uint32_t index, float value, std::uint32_t at) {
  search.selected_indices[at] = static_cast<std::uint32_t>(search.offset) + index;
  search.selected_values[at] = value;
}

/// Valid indices and values of 0.
inline __device__ void give_up(const Search& search) {
  const std::uint64_t first = std::uint64_t{search.block} * kThreads + threadIdx.x;
  for (std::uint64_t i = first; i < search.k; i += std::uint64_t{search.blocks} * kThreads) {
    select_entry(search, static_cast<std::uint32_t>(i), 0.0F, static_cast<std::uint32_t>(i));
  }
}

inline constexpr unsigned kEmitBlocks = 5;  ///< on a multiprocessor, for many loads under way

template <class Scores, class Searches>
__global__ void __launch_bounds__(kThreads, kEmitBlocks)
    emit_kernel(const __grid_constant__ Searches searches, Scores scores) {
  const Search search = searches.here();
  wait_for_last_kernel();
  const Mode mode = search.state->mode;
  if (mode == Mode::nothing) return;
  if (mode == Mode::give_up) return give_up(search);
  if (mode == Mode::everything) {
    const auto walk = [&](std::uint64_t tile, std::uint64_t end, auto body) {
      for (; tile < end; ++tile) for_each_in_tile(search.entries, scores.of(search), tile, body);
    };
    for_each_ranked<true>(search, walk, [&](std::uint32_t index, float value, bool selected, std::uint32_t at) {
      if (!selected) return;
      select_entry(search, index, value, at);
      search.rest[index] = 0.0F;
    });
    return;
  }
  const std::uint32_t zero = search.state->zero;
  const auto walk = [&](std::uint64_t tile, std::uint64_t end, auto body) {
    for_each_candidate<Scores>(search.candidates, tile, end, body);
  };
  for_each_ranked<false>(search, walk, [&](std::uint32_t index, float value, bool selected, std::uint32_t at) {
    if (selected) select_entry(search, index, value, at);
    const bool is_zero = key_of(value) >= zero;
    if (selected != is_zero) search.rest[index] = selected ? 0.0F : value;
  });
}

}  // namespace laconic::cuda::search
#endif
