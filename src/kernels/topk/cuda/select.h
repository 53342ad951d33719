#pragma once

// The launches of a selection. They depend on the sizes of scopes alone, and so does the scratch memory: about 8 bytes
// (12 if entries are rescored) for each of 6k + n / 1,024 + 65,536 candidates of a scope, and 64 KiB of histograms.

#include <algorithm>
#include <span>
#include <type_traits>

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

inline unsigned blocks_of(std::uint64_t work, std::uint64_t per_block, std::uint64_t most) {
  return static_cast<unsigned>(std::clamp<std::uint64_t>((work + per_block - 1) / per_block, 1, most));
}

/// Blocks of each pass that counts.
inline unsigned count_blocks(std::uint64_t tiles, std::uint64_t room) {
  return std::max(blocks_of(tiles, kThreads / kWarp, kMostCountBlocks),
                  blocks_of(room, kKeysPerBlock, kMostCountBlocks));
}

/// The views of a call, without scratch memory. Offsets of scopes count from the first entry of each view.
inline Common common_of(const Selection& selection, const Thresholds& thresholds, StatusView status) {
  Common common{};
  common.gradient = selection.gradient.data();
  common.residual = selection.residual.data();
  common.rest = selection.rest.data();
  common.selected_indices = selection.selected.indices.data();
  common.selected_values = selection.selected.values.data();
  common.selected = selection.selected.size();
  common.last_thresholds = thresholds.last.data();
  common.next_thresholds = thresholds.next.data();
  common.status = status.data();
  return common;
}

inline ScopePart part_of(const Scope& scope, std::size_t number) {
  ScopePart part{};
  part.offset = scope.offset;
  part.size = scope.size;
  part.first = scope.first;
  part.k = static_cast<std::uint32_t>(scope.count);
  part.number = static_cast<std::uint32_t>(number);
  return part;
}

/// Gives each scope its part of the scratch memory, which the caller's Workspace::Scope releases.
template <unsigned kMost>
void take_scratch(Workspace& workspace, ScopeSearches<kMost>& searches, bool rescored) {
  std::uint64_t candidates = 0;
  std::uint32_t tiles = 0;
  std::uint32_t blocks = 0;
  Common& common = searches.common;
  for (unsigned i = 0; i < searches.parts.count; ++i) {
    ScopePart& part = searches.parts.items[i];
    const std::uint64_t own_tiles = entries_of(common, part).tiles();
    part.room = static_cast<std::uint32_t>(room_for_candidates(part.size, part.k));
    part.first_candidate = candidates;
    part.first_tile = tiles;
    part.first_emit_block = blocks;
    candidates += part.room;
    tiles += static_cast<std::uint32_t>(own_tiles);
    blocks += emit_blocks(own_tiles);
  }
  common.candidates.indices = workspace.take<std::uint32_t>(candidates).data();
  common.candidates.values = workspace.take<std::uint32_t>(candidates).data();
  common.candidates.keys = rescored ? workspace.take<std::uint32_t>(candidates).data() : common.candidates.values;
  common.candidates.tiles = workspace.take<Stored>(tiles).data();
  common.states = workspace.take<State>(searches.parts.count).data();
  common.histograms = workspace.take<std::uint32_t>(std::uint64_t{searches.parts.count} * kPasses * kHistogram).data();
  common.greater = workspace.take<unsigned long long>(blocks).data();
  common.equal = workspace.take<unsigned long long>(blocks).data();
}

/// The scopes of a search, and its launches.
template <unsigned kMost>
class LongSearch {
 public:
  using Searches = ScopeSearches<kMost>;

  LongSearch(const Launch& launch, const Searches& searches) : kernels_(launch), searches_(searches) {}

  const Searches& searches() const { return searches_; }
  std::uint64_t tiles(const ScopePart& part) const { return entries_of(searches_.common, part).tiles(); }

  /// Gives each scope blocks_of_part(its part) blocks.
  template <class BlocksOf, class... Parameters>
  void run(BlocksOf blocks_of_part, unsigned threads, void (*kernel)(Searches, Parameters...),
           const std::type_identity_t<Parameters>&... arguments) {
    const unsigned blocks = searches_.parts.number_blocks(blocks_of_part);
    kernels_.run(blocks, threads, kernel, searches_, arguments...);
  }

 private:
  Chain kernels_;
  Searches searches_;
};

/// Selections of k < n entries in long scopes.
template <class Number, class Scores, unsigned kMost>
void search_largest(Place& place, const Launch& launch, const Common& common, const Parts<ScopePart, kMost>& parts,
                    Scores scores) {
  using Searches = ScopeSearches<kMost>;
  const Workspace::Scope scratch(place.workspace());
  Searches searches{common, parts};
  take_scratch(place.workspace(), searches, Scores::kRescored);
  LongSearch<kMost> search(launch, searches);
  const auto one = [](const ScopePart&) { return 1U; };
  const auto tiles = [&](const ScopePart& part) { return static_cast<unsigned>(search.tiles(part)); };
  const auto counters = [&](const ScopePart& part) { return count_blocks(search.tiles(part), part.room); };
  const auto emitters = [&](const ScopePart& part) { return emit_blocks(search.tiles(part)); };

  if constexpr (Scores::kRescored) scores.find_tiles(place.workspace(), search);
  search.run(one, kSampleThreads, bounds_kernel<Number, Scores, Searches>, scores);
  search.run(tiles, kThreads, scan_kernel<Number, Scores, Searches>);
  search.run(counters, kThreads, count_kernel<kCoarse, Scores, Searches>, scores);
  search.run(counters, kThreads, count_kernel<kFirst, Scores, Searches>, scores);
  search.run(counters, kThreads, count_kernel<kSecond, Scores, Searches>, scores);
  search.run(counters, kThreads, count_kernel<kLast, Scores, Searches>, scores);
  search.run(emitters, kThreads, emit_kernel<Scores, Searches>, scores);
}

// k = n: everything is selected, and the threshold is the smallest score.

using OneSearch = ScopeSearches<1>;

template <class Scores>
__global__ void start_all_kernel(const __grid_constant__ OneSearch searches) {
  State state{};
  state.smallest = kNonfiniteKey;
  *searches.here().state = state;
}

template <class Number, class Scores>
__global__ void take_all_kernel(const __grid_constant__ OneSearch searches) {
  const Search search = searches.here();
  const Number* gradient = gradient_of<Number>(search);
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
__global__ void finish_all_kernel(const __grid_constant__ OneSearch searches) {
  const Search search = searches.here();
  const bool nonfinite = search.state->nonfinite != 0;
  if (nonfinite) search.status->nonfinite = 1;
  report(search, nonfinite ? *search.last_threshold : __uint_as_float(search.state->smallest));
}

template <class Number, class Scores>
void select_all(Place& place, const Launch& launch, const Common& common, const ScopePart& part, const Scores& scores) {
  const Workspace::Scope scratch(place.workspace());
  OneSearch searches{common, {{part}, {0}, 1}};
  searches.common.states = place.workspace().take<State>(1).data();
  start_all_kernel<Scores><<<1, 1, 0, launch.stream()>>>(searches);
  launch.check();
  take_all_kernel<Number, Scores><<<blocks_for(part.k, kEntries), kThreads, 0, launch.stream()>>>(searches);
  launch.check();
  if constexpr (Scores::kRescored) scores.rescore_all(launch, searches);
  finish_all_kernel<Scores><<<1, 1, 0, launch.stream()>>>(searches);
  launch.check();
}

/// Selects in every scope: the short ones in one launch for many, the long ones in the launches of one search for many.
template <class Scores>
void select(Place& place, const Launch& launch, const Common& common, NumberType type, std::span<const Scope> scopes,
            const Scores& scores) {
  with_number(type, [&]<class Number>(Number) {
    using Many = Parts<ScopePart, kMostScopes>;
    const auto select_short = [&](const Many& parts, unsigned blocks) {
      using Searches = ScopeSearches<kMostScopes>;
      const Searches searches{common, parts};
      small_kernel<Number, Scores, Searches><<<blocks, kSampleThreads, 0, launch.stream()>>>(searches, scores);
      launch.check();
    };
    const auto select_long = [&](const Many& parts, unsigned) {
      if (parts.count > 1) return search_largest<Number>(place, launch, common, parts, scores);
      search_largest<Number>(place, launch, common, Parts<ScopePart, 1>{{parts.items[0]}, {0}, 1}, scores);
    };
    PartBatches<ScopePart, decltype(select_short), kMostScopes> short_ones(select_short);
    PartBatches<ScopePart, decltype(select_long), kMostScopes> long_ones(select_long);
    for (std::size_t i = 0; i < scopes.size(); ++i) {
      ScopePart part = part_of(scopes[i], i);
      // Of several scopes each has a support as long as its selection.
      if constexpr (Scores::kRescored) part.support = scopes.size() == 1 ? scores.size : part.k;
      if (part.size <= kMostSmall) {
        short_ones.add(part, 1);
      } else if (part.k == part.size) {
        select_all<Number>(place, launch, common, part, scores);
      } else {
        long_ones.add(part, entries_of(common, part).tiles());
      }
    }
    short_ones.finish();
    long_ones.finish();
  });
}

}  // namespace laconic::cuda::search
#endif
