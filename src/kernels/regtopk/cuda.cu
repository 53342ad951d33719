#include "kernels/regtopk/regularizer.h"
#include "kernels/regtopk/twins.h"
#include "kernels/topk/cuda/select.h"

// Twin of kernels/regtopk: the selection of kernels/topk with other scores on the last support.

namespace laconic::cuda {
namespace {

using namespace search;

/// The last support, by which some entries are rescored. A table says where each tile's entries begin in it.
struct Regularized {
  static constexpr bool kRescored = true;
  const std::uint32_t* indices;
  const float* corrected;
  const float* aggregate;
  std::uint32_t size;
  RegtopkScore score;
  std::uint32_t* tile_begin;  ///< tiles + 1 of them

  __device__ std::uint32_t key_at(std::uint32_t position, float value) const {
    return key_of(regularized_score(score, value, corrected[position], aggregate[position]));
  }

  __device__ std::uint32_t first_in_tile(std::uint64_t tile) const { return tile_begin[tile]; }

  /// The first position in the support from that index on.
  __device__ std::uint32_t first_from(const Entries& entries, std::uint64_t index) const {
    const std::uint64_t tile = (index + entries.lead) / entries.tile;
    std::uint32_t low = tile_begin[tile];
    std::uint32_t high = tile_begin[tile + 1];
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (indices[middle] < index) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /// The key of an entry, which is on the support if `next` is its position there.
  __device__ std::uint32_t key_if_next(std::uint64_t index, float value, std::uint32_t key, std::uint32_t& next) const {
    if (next >= size || indices[next] != index) return key;
    return key_at(next++, value);
  }

  /// Keys of a warp's 32 neighbouring entries. `next` is the first position in the support that is not before them, and
  /// afterwards the first behind them.
  __device__ std::uint32_t key_in_chunk(std::uint64_t chunk, float value, std::uint32_t key,
                                        std::uint32_t& next) const {
    const std::uint64_t position = std::uint64_t{next} + lane();
    const std::uint64_t index = position < size ? indices[position] : chunk + kWarp;
    const auto count = static_cast<unsigned>(__popc(__ballot_sync(kAllThreadsOfWarp, index < chunk + kWarp)));
    const auto owner = static_cast<std::uint32_t>(index - chunk);
    for (unsigned i = 0; i < count; ++i) {
      if (__shfl_sync(kAllThreadsOfWarp, owner, i) == lane()) key = key_at(next + i, value);
    }
    next += count;
    return key;
  }

  void rescore(const Launch& launch, const Search& search) const;
  void rescore_all(const Launch& launch, const Search& search) const;
};

/// Where each tile begins: a thread per entry of the support and one behind the last, which writes for the tiles after
/// the entry before.
__global__ void tile_begin_kernel(Entries entries, Regularized scores) {
  const std::uint64_t i = thread_index();
  if (i > scores.size) return;
  const std::uint64_t tiles = entries.tiles();
  const auto tile_of = [&](std::uint64_t position) {
    return min((scores.indices[position] + std::uint64_t{entries.lead}) / entries.tile, tiles);
  };
  const std::uint64_t begin = i == 0 ? 0 : tile_of(i - 1) + 1;
  const std::uint64_t end = i == scores.size ? tiles : tile_of(i);
  for (std::uint64_t tile = begin; tile <= end; ++tile) scores.tile_begin[tile] = static_cast<std::uint32_t>(i);
}

/// Keys of the candidates, a warp per tile.
__global__ void rescore_kernel(Search search, Regularized scores) {
  const std::uint64_t tile = thread_index() / kWarp;
  if (tile >= search.entries.tiles()) return;
  const Stored stored = search.candidates.tiles[tile];
  for (std::uint32_t i = lane(); i < stored.count; i += kWarp) {
    const std::uint64_t at = std::uint64_t{stored.start} + i;
    const std::uint32_t bits = search.candidates.values[at];
    const std::uint32_t index = search.candidates.indices[at];
    std::uint32_t position = scores.first_from(search.entries, index);
    search.candidates.keys[at] =
        scores.key_if_next(index, __uint_as_float(bits), magnitude_bits(bits), position);
  }
}

/// The smallest score of the support, when everything is selected. No score is above its magnitude.
__global__ void rescore_all_kernel(Search search, Regularized scores) {
  std::uint32_t smallest = kNonfiniteKey;
  for_each_entry(scores.size, [&](std::uint64_t i) {
    const std::uint32_t index = scores.indices[i];
    if (index >= search.entries.size) return;
    smallest = min(smallest, scores.key_at(static_cast<std::uint32_t>(i), search.selected_values[index]));
  });
  smallest = __reduce_min_sync(kAllThreadsOfWarp, smallest);
  if (lane() == 0) atomicMin(&search.state->smallest, smallest);
}

void Regularized::rescore(const Launch& launch, const Search& search) const {
  const std::uint64_t threads = search.entries.tiles() * kWarp;
  rescore_kernel<<<blocks_for(threads, 1), kThreads, 0, launch.stream()>>>(search, *this);
  launch.check();
}

void Regularized::rescore_all(const Launch& launch, const Search& search) const {
  rescore_all_kernel<<<blocks_for(size, kEntries), kThreads, 0, launch.stream()>>>(search, *this);
  launch.check();
}

}  // namespace

void error_feedback_regtopk(Place& place, const topk::Selection& selection, const LastSupport& last,
                            const RegtopkScore& score, StatusView status) {
  if (last.indices.empty()) return error_feedback_topk(place, selection, status);
  const Workspace::Scope scope(place.workspace());
  const Launch launch(place, "error_feedback_regtopk");
  const Search search = make_search(place, selection, status, Regularized::kRescored);
  Regularized scores{last.indices.data(),
                     last.corrected.data(),
                     last.aggregate.data(),
                     static_cast<std::uint32_t>(last.indices.size()),
                     score,
                     nullptr};
  if (search.k == search.entries.size) return select_all(launch, search, scores);
  scores.tile_begin = place.workspace().take<std::uint32_t>(search.entries.tiles() + 1).data();
  tile_begin_kernel<<<blocks_for(last.indices.size() + 1, 1), kThreads, 0, launch.stream()>>>(search.entries, scores);
  launch.check();
  select(launch, search, scores);
}

}  // namespace laconic::cuda
