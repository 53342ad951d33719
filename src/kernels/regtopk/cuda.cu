#include "base/cuda/first_from.h"
#include "kernels/regtopk/regularizer.h"
#include "kernels/regtopk/twins.h"
#include "kernels/topk/cuda/select.h"

// Twin of kernels/regtopk: the selection of kernels/topk with other scores on the last support.

namespace laconic::cuda {
namespace {

using namespace search;

/// The last support of a scope, by which some entries are rescored, or the supports of all scopes, one after another. A
/// table says where each tile's entries begin in it.
struct Regularized {
  static constexpr bool kRescored = true;
  const std::uint32_t* indices;
  const float* corrected;
  const float* aggregate;
  std::uint32_t size;
  RegtopkScore score;
  std::uint32_t* tile_begin;  ///< tiles + 1 per scope

  __device__ Regularized of(const Search& search) const {
    return {indices + search.first, corrected + search.first, aggregate + search.first,
            search.support,         score,                    tile_begin + search.first_tile_begin};
  }

  __device__ std::uint32_t key_at(std::uint32_t position, float value) const {
    return key_of(regularized_score(score, value, corrected[position], aggregate[position]));
  }

  __device__ std::uint32_t first_in_tile(std::uint64_t tile) const { return tile_begin[tile]; }

  /// The first position in the support from that index on.
  __device__ std::uint32_t first_from(const Entries& entries, std::uint64_t index) const {
    const std::uint64_t tile = (index + entries.lead) / kTile;
    return cuda::first_from(indices, tile_begin[tile], tile_begin[tile + 1], index);
  }

  /// Calls body(position, index) for each of the support from index `begin` on and before `end`.
  template <class Body>
  __device__ void for_each_between(const Entries& entries, std::uint64_t begin, std::uint64_t end, Body body) const {
    for (std::uint32_t position = first_from(entries, begin); position < size; ++position) {
      const std::uint32_t index = indices[position];
      if (index >= end) return;
      body(position, index);
    }
  }

  /// Keys of a row: a warp's 32 neighbouring entries. `next` is the first position in the support that is not before
  /// them, and afterwards the first behind them.
  __device__ std::uint32_t key_in_row(std::uint64_t row, float value, std::uint32_t key, std::uint32_t& next) const {
    const std::uint64_t position = std::uint64_t{next} + lane();
    const std::uint64_t index = position < size ? indices[position] : row + kWarp;
    const auto count = static_cast<unsigned>(__popc(__ballot_sync(kAllThreadsOfWarp, index < row + kWarp)));
    const auto owner = static_cast<std::uint32_t>(index - row);
    for (unsigned i = 0; i < count; ++i) {
      if (__shfl_sync(kAllThreadsOfWarp, owner, i) == lane()) key = key_at(next + i, value);
    }
    next += count;
    return key;
  }

  template <unsigned kMost>
  void find_tiles(Workspace& workspace, LongSearch<kMost>& search);
  template <unsigned kMost>
  void rescore(LongSearch<kMost>& search) const;
  void rescore_all(const Launch& launch, const OneSearch& searches) const;
};

/// Where each tile begins: each entry of the support, and one behind the last, writes for the tiles after the entry
/// before.
template <class Searches>
__global__ void tile_begin_kernel(const __grid_constant__ Searches searches, Regularized all) {
  const Search search = searches.here();
  const Regularized scores = all.of(search);
  const Entries& entries = search.entries;
  struct Range {
    std::uint64_t begin, end;
  };
  const std::uint64_t tiles = entries.tiles();
  const auto tile_of = [&](std::uint64_t position) {
    return min((scores.indices[position] + std::uint64_t{entries.lead}) / kTile, tiles);
  };
  load_then_store(
      search.block, std::uint64_t{scores.size} + 1,
      [&](std::uint64_t i) {
        return Range{i == 0 ? 0 : tile_of(i - 1) + 1, i == scores.size ? tiles : tile_of(i)};
      },
      [&](std::uint64_t i, const Range& range) {
        const auto position = static_cast<std::uint32_t>(i);
        for (std::uint64_t tile = range.begin; tile <= range.end; ++tile) scores.tile_begin[tile] = position;
      });
}

constexpr unsigned kRescoreBlocks = 6;  ///< on a multiprocessor: it waits for memory most of the time

/// Keys of a tile's candidates, a warp per tile. What does not depend on each other is loaded at once.
template <class Searches>
__global__ void __launch_bounds__(kThreads, kRescoreBlocks)
    rescore_kernel(const __grid_constant__ Searches searches, Regularized all) {
  const Search search = searches.here();
  const Regularized scores = all.of(search);
  constexpr unsigned kAtOnce = 4;
  constexpr unsigned kNearby = 256;  // a longer part of a support is searched where it lies
  __shared__ std::uint32_t copies[kThreads / kWarp][kNearby];
  const std::uint64_t tile = std::uint64_t{search.block} * (kThreads / kWarp) + warp();
  if (tile >= search.entries.tiles()) return;
  const Candidates& candidates = search.candidates;
  const Stored stored = candidates.tiles[tile];
  const std::uint32_t first = scores.tile_begin[tile];
  const std::uint32_t count = scores.tile_begin[tile + 1] - first;
  const std::uint32_t* nearby = count <= kNearby ? copies[warp()] : scores.indices + first;
  for (std::uint32_t from = 0; from < stored.count; from += kAtOnce * kWarp) {
    const std::uint32_t begin = from + lane();
    std::uint32_t indices[kAtOnce];
    std::uint32_t keys[kAtOnce];
    float corrected[kAtOnce];
    float aggregate[kAtOnce];
    bool rescored[kAtOnce];
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i) {
      const bool valid = begin + i * kWarp < stored.count;
      const std::uint64_t at = std::uint64_t{stored.start} + begin + i * kWarp;
      indices[i] = valid ? candidates.indices[at] : 0;
      keys[i] = valid ? candidates.values[at] : 0;
    }
    if (from == 0 && count <= kNearby) {
      for (std::uint32_t i = lane(); i < count; i += kWarp) copies[warp()][i] = scores.indices[first + i];
      __syncwarp();
    }
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i) {
      const std::uint32_t position = first_from(nearby, 0U, count, indices[i]);
      rescored[i] = position < count && nearby[position] == indices[i];
      corrected[i] = rescored[i] ? scores.corrected[first + position] : 0.0F;
      aggregate[i] = rescored[i] ? scores.aggregate[first + position] : 0.0F;
    }
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i) {
      if (begin + i * kWarp >= stored.count) continue;
      const float value = __uint_as_float(keys[i]);
      candidates.keys[std::uint64_t{stored.start} + begin + i * kWarp] =
          key_of(rescored[i] ? regularized_score(scores.score, value, corrected[i], aggregate[i]) : value);
    }
  }
}

/// The smallest score of the support, when everything is selected. No score is above its magnitude.
__global__ void rescore_all_kernel(const __grid_constant__ OneSearch searches, Regularized all) {
  const Search search = searches.here();
  const Regularized scores = all.of(search);
  std::uint32_t smallest = kNonfiniteKey;
  for_each_entry(scores.size, [&](std::uint64_t i) {
    const std::uint32_t index = scores.indices[i];
    if (index >= search.entries.size) return;
    smallest = min(smallest, scores.key_at(static_cast<std::uint32_t>(i), search.selected_values[index]));
  });
  smallest = __reduce_min_sync(kAllThreadsOfWarp, smallest);
  if (lane() == 0) atomicMin(&search.state->smallest, smallest);
}

template <unsigned kMost>
void Regularized::find_tiles(Workspace& workspace, LongSearch<kMost>& search) {
  const auto& parts = search.searches().parts;
  std::uint64_t begins = 0;
  for (unsigned i = 0; i < parts.count; ++i) begins += search.tiles(parts.items[i]) + 1;
  tile_begin = workspace.take<std::uint32_t>(begins).data();
  const auto blocks = [](const ScopePart& part) { return blocks_for(std::uint64_t{part.support} + 1, kEntries); };
  search.run(blocks, kThreads, tile_begin_kernel<ScopeSearches<kMost>>, *this);
}

template <unsigned kMost>
void Regularized::rescore(LongSearch<kMost>& search) const {
  const auto blocks = [&](const ScopePart& part) { return blocks_for(search.tiles(part) * kWarp, 1); };
  search.run(blocks, kThreads, rescore_kernel<ScopeSearches<kMost>>, *this);
}

void Regularized::rescore_all(const Launch& launch, const OneSearch& searches) const {
  const unsigned blocks = blocks_for(searches.parts.items[0].support, kEntries);
  rescore_all_kernel<<<blocks, kThreads, 0, launch.stream()>>>(searches, *this);
  launch.check();
}

}  // namespace

void error_feedback_regtopk_by_scope(Place& place, const topk::Selection& selection, std::span<const Scope> scopes,
                                     const Thresholds& thresholds, const LastSupport& last, const RegtopkScore& score,
                                     StatusView status) {
  if (last.indices.empty()) return error_feedback_topk_by_scope(place, selection, scopes, thresholds, status);
  const Launch launch(place, "error_feedback_regtopk_by_scope");
  const Regularized scores{last.indices.data(),   last.corrected.data(),
                           last.aggregate.data(), static_cast<std::uint32_t>(last.indices.size()),
                           score,                 nullptr};
  select(place, launch, common_of(selection, thresholds, status), selection.gradient.type(), scopes, scores);
}

void error_feedback_regtopk(Place& place, const topk::Selection& selection, const LastSupport& last,
                            const RegtopkScore& score, StatusView status) {
  const Scope all = selection.scope();
  error_feedback_regtopk_by_scope(place, selection, {&all, 1}, thresholds_in(status), last, score, status);
}

}  // namespace laconic::cuda
