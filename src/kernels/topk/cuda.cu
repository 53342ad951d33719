#include "kernels/topk/cuda/scopes.h"
#include "kernels/topk/cuda/select.h"
#include "kernels/topk/twins.h"

// Twins of kernels/topk. cuda/search.h says how a selection works.

namespace laconic::cuda {
namespace {

using namespace search;

constexpr unsigned kSplitTile = 512;  ///< a list is shorter than a gradient, so its tiles are too

/// A list that is split: one scope, whose values are there already.
struct ListSearch {
  Search search;

  __device__ Search here() const {
    Search own = search;
    own.block = blockIdx.x;
    own.blocks = gridDim.x;
    return own;
  }
};

/// The passes begin with all keys.
__global__ void start_split_kernel(const __grid_constant__ ListSearch list) {
  let_next_kernel_begin();
  const Search& search = list.search;
  for (std::uint64_t i = threadIdx.x; i < kPasses * kHistogram; i += kThreads) search.histograms[i] = 0;
  clear_emit_words<kThreads>(search.entries.tiles(), search.greater, search.equal);
  if (threadIdx.x != 0) return;
  State state{};
  state.mode = Mode::everything;
  state.window = {0, 31 - kBinBits, kBins, search.k};
  *search.state = state;
}

/// Pointers of entries, which are read, and of the two lists that they go to.
struct Lists {
  const std::uint32_t* indices;
  std::uint32_t* left_indices;
  float* left_values;
};

__global__ void split_kernel(const __grid_constant__ ListSearch list, Lists lists) {
  wait_for_last_kernel();
  const Search search = list.here();
  const auto walk = [&](std::uint64_t tile, std::uint64_t end, auto body) {
    for (; tile < end; ++tile) for_each_in_tile(search.entries, Magnitudes{}, tile, body);
  };
  for_each_ranked<false>(search, walk, [&](std::uint32_t position, float value, bool kept, std::uint32_t before) {
    const std::uint32_t index = lists.indices[position];
    if (kept) return select_entry(search, index, value, before);
    lists.left_indices[position - before] = index;
    lists.left_values[position - before] = value;
  });
}

void copy_entries(const Launch& launch, ConstSparseView from, SparseView to) {
  if (from.size() == 0) return;
  check(cudaMemcpyAsync(to.indices.data(), from.indices.data(), from.indices.size_bytes(), cudaMemcpyDeviceToDevice,
                        launch.stream()),
        "split_largest");
  check(cudaMemcpyAsync(to.values.data(), from.values.data(), from.values.size_bytes(), cudaMemcpyDeviceToDevice,
                        launch.stream()),
        "split_largest");
}

}  // namespace

void error_feedback_topk_by_scope(Place& place, const topk::Selection& selection, std::span<const Scope> scopes,
                                  const Thresholds& thresholds, StatusView status) {
  const Launch launch(place, "error_feedback_topk_by_scope");
  select(place, launch, common_of(selection, thresholds, status), selection.gradient.type(), scopes, Magnitudes{});
}

void error_feedback_topk(Place& place, const topk::Selection& selection, StatusView status) {
  const Scope all = selection.scope();
  error_feedback_topk_by_scope(place, selection, {&all, 1}, thresholds_in(status), status);
}

void error_feedback_topk_by_scope(Place& place, const topk::Selection& selection, const FixedScopes& scopes,
                                  StatusView status) {
  const Launch launch(place, "error_feedback_topk_by_scope");
  const ScopeTask task{selection.gradient.data(),
                       selection.residual.data(),
                       selection.rest.data(),
                       selection.gradient.size(),
                       scopes,
                       static_cast<unsigned>(scopes.count(selection.gradient.size())),
                       selection.selected.indices.data(),
                       selection.selected.values.data(),
                       status.data()};
  with_number(selection.gradient.type(), [&]<class Number>(Number) {
    if (scopes.each <= kMostHeld) {
      scopes_kernel<Number><<<blocks_for_scopes(task.count), kThreads, 0, launch.stream()>>>(task);
    } else {
      long_scopes_kernel<Number><<<task.count, kThreads, 0, launch.stream()>>>(task);
    }
    launch.check();
  });
}

void split_largest(Place& place, ConstSparseView entries, SparseView kept, SparseView left) {
  const Launch launch(place, "split_largest");
  if (kept.size() == 0) return copy_entries(launch, entries, left);
  if (left.size() == 0) return copy_entries(launch, entries, kept);

  const Workspace::Scope scope(place.workspace());
  Workspace& workspace = place.workspace();
  ListSearch list{};
  Search& search = list.search;
  search.entries = {entries.values.data(), entries.size(), 0, kSplitTile};
  search.k = static_cast<std::uint32_t>(kept.size());
  search.selected_indices = kept.indices.data();
  search.selected_values = kept.values.data();
  const std::uint64_t tiles = search.entries.tiles();
  const unsigned blocks = emit_blocks(tiles);
  search.state = workspace.take<State>(1).data();
  search.histograms = workspace.take<std::uint32_t>(kPasses * kHistogram).data();
  search.greater = workspace.take<unsigned long long>(blocks).data();
  search.equal = workspace.take<unsigned long long>(blocks).data();

  const unsigned counters = count_blocks(tiles, 0);
  const Lists lists{entries.indices.data(), left.indices.data(), left.values.data()};
  Chain kernels(launch);
  kernels.run(1, kThreads, start_split_kernel, list);
  kernels.run(counters, kThreads, count_kernel<kFirst, Magnitudes, ListSearch>, list, Magnitudes{});
  kernels.run(counters, kThreads, count_kernel<kSecond, Magnitudes, ListSearch>, list, Magnitudes{});
  kernels.run(counters, kThreads, count_kernel<kLast, Magnitudes, ListSearch>, list, Magnitudes{});
  kernels.run(blocks, kThreads, split_kernel, list, lists);
}

}  // namespace laconic::cuda
