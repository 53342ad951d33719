#pragma once

// The launches of a selection. They depend on n and k alone, and so does the scratch memory: about 8 bytes (12 if
// entries are rescored) for each of 6k + n / 1,024 + 65,536 candidates.

#include <algorithm>

#include "kernels/topk/cuda/bounds.h"
#include "kernels/topk/cuda/count.h"
#include "kernels/topk/cuda/emit.h"
#include "kernels/topk/cuda/scan.h"
#include "kernels/topk/cuda/small.h"

#ifdef __CUDACC__
namespace laconic::cuda::search {

/// Normal values have 2k to 3k candidates above 0.9 x the threshold, and more only if k / n is small. The terms without
/// k cover the error of a sample if k is tiny. A selection of a large part of the entries has little more than k.
inline std::uint64_t room_for_candidates(std::uint64_t n, std::uint64_t k) {
  return std::min(n, 2 * k + std::min(4 * k, n / 16) + n / 1024 + 65'536);
}

inline constexpr std::uint64_t kMostBlocks = 0x7FFF'FFFF;

inline unsigned blocks_of(std::uint64_t work, std::uint64_t per_block, std::uint64_t most) {
  return static_cast<unsigned>(std::clamp<std::uint64_t>((work + per_block - 1) / per_block, 1, most));
}

/// What is selected from and where it goes to, without scratch memory.
inline Search search_of(const Selection& selection, StatusView status) {
  const std::uint64_t n = selection.gradient.size();
  const std::uint64_t k = selection.selected.size();
  float* rest = selection.rest.data();
  const auto lead = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(rest) % sizeof(float4) / sizeof(float));
  Search search{};
  search.gradient = selection.gradient.data();
  search.residual = selection.residual.data();
  search.rest = rest;
  search.entries = {rest, n, lead, kTile};
  search.k = static_cast<std::uint32_t>(k);
  search.selected_indices = selection.selected.indices.data();
  search.selected_values = selection.selected.values.data();
  search.status = status.data();
  return search;
}

/// What emit and the passes before it need.
inline void take_counters(Workspace& workspace, Search& search) {
  constexpr unsigned kWarps = kThreads / kWarp;
  const std::uint64_t tiles = search.entries.tiles();
  search.tiles_per_warp = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(tiles / 4096, 2, 8));
  search.emit_blocks = blocks_of(tiles, search.tiles_per_warp * kWarps, kMostBlocks);
  search.histograms = workspace.take<std::uint32_t>(kPasses * kHistogram).data();
  search.greater = workspace.take<unsigned long long>(search.emit_blocks).data();
  search.equal = workspace.take<unsigned long long>(search.emit_blocks).data();
}

/// Scratch memory that the caller's scope releases.
inline void take_scratch(Workspace& workspace, Search& search, bool rescored) {
  search.state = workspace.take<State>(1).data();
  if (search.k == search.entries.size) return;
  const std::uint64_t room = room_for_candidates(search.entries.size, search.k);
  Candidates& candidates = search.candidates;
  candidates.room = room;
  candidates.indices = workspace.take<std::uint32_t>(room).data();
  candidates.values = workspace.take<std::uint32_t>(room).data();
  candidates.keys = rescored ? workspace.take<std::uint32_t>(room).data() : candidates.values;
  candidates.tiles = workspace.take<Stored>(search.entries.tiles()).data();
  take_counters(workspace, search);
}

template <class Scores>
void count(const Launch& launch, const Search& search, const Scores& scores, unsigned pass) {
  const unsigned for_entries = blocks_of(search.entries.tiles(), kThreads / kWarp, kMostCountBlocks);
  const unsigned for_candidates = blocks_of(search.candidates.room, kKeysPerBlock, kMostCountBlocks);
  const unsigned blocks = pass == kCoarse ? for_candidates : std::max(for_entries, pass == kLast ? for_candidates : 1);
  count_kernel<Scores><<<blocks, kThreads, 0, launch.stream()>>>(search, scores, pass);
  launch.check();
}

/// A selection of k < n entries of a long view.
template <class Number, class Scores>
void search_largest(const Launch& launch, const Search& search, const Scores& scores) {
  const auto tiles = static_cast<unsigned>(search.entries.tiles());
  bounds_kernel<Number, Scores><<<1, kSampleThreads, 0, launch.stream()>>>(search, scores);
  launch.check();
  scan_kernel<Number, Scores><<<tiles, kThreads, 0, launch.stream()>>>(search);
  launch.check();
  if constexpr (Scores::kRescored) scores.rescore(launch, search);
  for (unsigned pass = kCoarse; pass < kPasses; ++pass) count(launch, search, scores, pass);
  emit_kernel<Scores><<<search.emit_blocks, kThreads, 0, launch.stream()>>>(search, scores);
  launch.check();
}

// k = n: everything is selected, and the threshold is the smallest score.

template <class Scores>
__global__ void start_all_kernel(Search search) {
  State state{};
  state.smallest = kNonfiniteKey;
  *search.state = state;
}

template <class Number, class Scores>
__global__ void take_all_kernel(Search search) {
  const auto* gradient = static_cast<const Number*>(search.gradient);
  std::uint32_t smallest = kNonfiniteKey;
  bool nonfinite = false;
  load_then_store(
      search.entries.size,
      [=](std::uint64_t i) { return with_residual(widened(gradient[i]), search.residual[i]); },
      [&](std::uint64_t i, float value) {
        select_entry(search, static_cast<std::uint32_t>(i), value, static_cast<std::uint32_t>(i));
        search.rest[i] = 0.0F;
        smallest = min(smallest, key_of(value));
        nonfinite = nonfinite || key_of(value) >= kNonfiniteKey;
      });
  smallest = __reduce_min_sync(kAllThreadsOfWarp, smallest);
  if (lane() == 0 && smallest < search.state->smallest) atomicMin(&search.state->smallest, smallest);
  if (nonfinite) search.state->nonfinite = 1;
}

template <class Scores>
__global__ void finish_all_kernel(Search search) {
  search.status->count = search.k;
  if (search.state->nonfinite != 0) {
    search.status->nonfinite = 1;
  } else {
    search.status->threshold = search.k == 0 ? 0.0F : __uint_as_float(search.state->smallest);
  }
}

template <class Number, class Scores>
void select_all(const Launch& launch, const Search& search, const Scores& scores) {
  start_all_kernel<Scores><<<1, 1, 0, launch.stream()>>>(search);
  launch.check();
  if (search.k > 0) {
    take_all_kernel<Number, Scores><<<blocks_for(search.k, kEntries), kThreads, 0, launch.stream()>>>(search);
    launch.check();
    if constexpr (Scores::kRescored) scores.rescore_all(launch, search);
  }
  finish_all_kernel<Scores><<<1, 1, 0, launch.stream()>>>(search);
  launch.check();
}

/// Whether a selection takes one launch, without scratch memory.
inline bool is_small(const Search& search) { return search.entries.size <= kMostSmall; }

template <class Scores>
void select(const Launch& launch, ConstGradientView gradient, const Search& search, const Scores& scores) {
  with_numbers(gradient, [&]<class Number>(const Number*) {
    if (is_small(search)) {
      select_small<Number>(launch, search, scores);
    } else if (search.k == search.entries.size) {
      select_all<Number>(launch, search, scores);
    } else {
      search_largest<Number>(launch, search, scores);
    }
  });
}

}  // namespace laconic::cuda::search
#endif
