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

  /// Keys of candidates instead of the bits of their values. Their searches in the support go on side by side.
  template <unsigned kCount>
  __device__ void keys_of(const Entries& entries, const std::uint32_t (&candidates)[kCount],
                          std::uint32_t (&bits)[kCount]) const {
    std::uint32_t position[kCount];
    std::uint32_t end[kCount];
    std::uint32_t longest = 0;
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) {
      const std::uint64_t tile = (candidates[i] + std::uint64_t{entries.lead}) / kTile;
      position[i] = tile_begin[tile];
      end[i] = tile_begin[tile + 1];
      longest = max(longest, end[i] - position[i]);
    }
    for (std::uint32_t step = longest == 0 ? 0 : 1U << (31 - __clz(static_cast<int>(longest))); step > 0; step /= 2) {
#pragma unroll
      for (unsigned i = 0; i < kCount; ++i) {
        const bool inside = end[i] - position[i] >= step;
        if (inside && indices[position[i] + step - 1] < candidates[i]) position[i] += step;
      }
    }
    bool rescored[kCount];
    float of_corrected[kCount];
    float of_aggregate[kCount];
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) {
      rescored[i] = position[i] < end[i] && indices[position[i]] == candidates[i];
      of_corrected[i] = rescored[i] ? corrected[position[i]] : 0.0F;
      of_aggregate[i] = rescored[i] ? aggregate[position[i]] : 0.0F;
    }
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) {
      const float value = __uint_as_float(bits[i]);
      bits[i] = key_of(rescored[i] ? regularized_score(score, value, of_corrected[i], of_aggregate[i]) : value);
    }
  }

  /// Calls body(position, index) for each of the support from index `begin` on and before `end`. All kSampleThreads
  /// threads of a block call it, each for its own range. The first steps of their searches are in shared memory.
  template <class Body>
  __device__ void for_each_between(std::uint64_t begin, std::uint64_t end, Body body) const {
    __shared__ std::uint32_t sample[kSampleThreads];
    const auto sampled = [this](std::uint64_t i) { return static_cast<std::uint32_t>(i * size / kSampleThreads); };
    if (size > 0) sample[threadIdx.x] = indices[sampled(threadIdx.x)];
    __syncthreads();
    if (size == 0) return;
    const unsigned above = cuda::first_from(sample, 0U, kSampleThreads, begin);
    std::uint32_t position = cuda::first_from(indices, above == 0 ? 0 : sampled(above - 1) + 1, sampled(above), begin);
    for (; position < size; ++position) {
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
  void rescore_all(const Launch& launch, const OneSearch& searches) const;
};

constexpr unsigned kPositions = 4;  ///< of a thread

/// Where each tile begins: each entry of the support, and one behind the last, writes for the tiles after the entry
/// before.
template <class Searches>
__global__ void tile_begin_kernel(const __grid_constant__ Searches searches, Regularized all) {
  let_next_kernel_begin();
  const Search search = searches.here();
  const Regularized scores = all.of(search);
  const Entries& entries = search.entries;
  const auto tiles = static_cast<std::uint32_t>(entries.tiles());
  const auto tile_of = [&](std::uint32_t index) {
    const std::uint64_t tile = (index + std::uint64_t{entries.lead}) / kTile;
    return tile < tiles ? static_cast<std::uint32_t>(tile) : tiles;
  };
  const std::uint64_t first = (std::uint64_t{search.block} * kThreads + threadIdx.x) * kPositions;
  std::uint32_t found[kPositions];
  if (first + kPositions <= scores.size && is_aligned(scores.indices)) {
    const uint4 four = *reinterpret_cast<const uint4*>(scores.indices + first);
    found[0] = tile_of(four.x);
    found[1] = tile_of(four.y);
    found[2] = tile_of(four.z);
    found[3] = tile_of(four.w);
  } else {
#pragma unroll
    for (unsigned i = 0; i < kPositions; ++i) {
      found[i] = first + i < scores.size ? tile_of(scores.indices[first + i]) : tiles;
    }
  }
  std::uint32_t before = __shfl_up_sync(kAllThreadsOfWarp, found[kPositions - 1], 1);
  if (lane() == 0 && first > 0 && first <= scores.size) before = tile_of(scores.indices[first - 1]);
#pragma unroll
  for (unsigned i = 0; i < kPositions; ++i) {
    const std::uint64_t position = first + i;
    if (position > scores.size) return;
    for (std::uint32_t tile = position == 0 ? 0 : before + 1; tile <= found[i]; ++tile) {
      scores.tile_begin[tile] = static_cast<std::uint32_t>(position);
    }
    before = found[i];
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
  const auto blocks = [](const ScopePart& part) { return blocks_for(std::uint64_t{part.support} + 1, kPositions); };
  search.run(blocks, kThreads, tile_begin_kernel<ScopeSearches<kMost>>, *this);
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
