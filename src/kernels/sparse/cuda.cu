#include "base/cuda/first_from.h"
#include "base/cuda/list.h"
#include "base/cuda/parts.h"
#include "kernels/convert/cuda/numbers.h"
#include "kernels/sparse/twins.h"

// Twins of the single-entry loops of kernels/sparse. Indices are distinct, so no two threads meet in an entry.

namespace laconic::cuda {
namespace {

struct Entry {
  std::uint32_t index;
  float value;
};

__global__ void scatter_add_kernel(const std::uint32_t* indices, const float* values, float* out, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return Entry{indices[i], out[indices[i]] + values[i]}; },
      [=](std::uint64_t, const Entry& entry) { out[entry.index] = entry.value; });
}

template <class Number>
__global__ void scatter_kernel(const std::uint32_t* indices, const float* values, Number* out, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return Entry{indices[i], values[i]}; },
      [=](std::uint64_t, const Entry& entry) { out[entry.index] = narrowed<Number>(entry.value); });
}

__global__ void gather_kernel(const float* from, const std::uint32_t* indices, float* values, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return from[indices[i]]; },
      [=](std::uint64_t i, float value) { values[i] = value; });
}

__global__ void find_entries_kernel(const std::uint32_t* entry_indices, const float* entry_values, std::uint64_t entries,
                                    const std::uint32_t* indices, float* values, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) {
    const std::uint64_t at = first_from(entry_indices, std::uint64_t{0}, entries, indices[i]);
    values[i] = at < entries && entry_indices[at] == indices[i] ? entry_values[at] : 0.0F;
  });
}

struct IndicesOfScope {
  std::uint64_t first;
  std::uint64_t count;
  std::uint32_t offset;
};

__global__ void in_scopes_kernel(const __grid_constant__ Parts<IndicesOfScope> scopes, const std::uint32_t* indices,
                                 std::uint32_t* within) {
  const unsigned part = scopes.of_block();
  const IndicesOfScope& scope = scopes.items[part];
  load_then_store(
      scopes.block_in(part), scope.count, [&](std::uint64_t i) { return indices[scope.first + i] - scope.offset; },
      [&](std::uint64_t i, std::uint32_t index) { within[scope.first + i] = index; });
}

template <class Bounds>
__global__ void count_below_kernel(const std::uint32_t* indices, std::uint64_t n, const __grid_constant__ Bounds bounds,
                                   std::uint64_t* counts, unsigned count) {
  const auto i = static_cast<unsigned>(thread_index());
  if (i >= count) return;
  counts[i] = first_from(indices, std::uint64_t{0}, n, bounds[i]);
}

template <class Positions>
__global__ void read_indices_kernel(const std::uint32_t* indices, const __grid_constant__ Positions positions,
                                    std::uint64_t* found, unsigned count) {
  const auto i = static_cast<unsigned>(thread_index());
  if (i < count) found[i] = indices[positions[i]];
}

}  // namespace

void scatter_add(Place& place, ConstSparseView entries, View<float> out) {
  launch_over(place, "scatter_add", entries.size(), scatter_add_kernel, entries.indices.data(), entries.values.data(),
              out.data(), entries.size());
}

void scatter(Place& place, ConstSparseView entries, GradientView out) {
  with_numbers(out, [&]<class Number>(Number* to) {
    launch_over(place, "scatter", entries.size(), scatter_kernel<Number>, entries.indices.data(),
                entries.values.data(), to, entries.size());
  });
}

void find_entries(Place& place, ConstSparseView entries, View<const std::uint32_t> indices, View<float> values) {
  launch_over(place, "find_entries", indices.size(), find_entries_kernel, entries.indices.data(),
              entries.values.data(), entries.size(), indices.data(), values.data(), indices.size());
}

void gather(Place& place, View<const float> from, View<const std::uint32_t> indices, View<float> values) {
  launch_over(place, "gather", values.size(), gather_kernel, from.data(), indices.data(), values.data(), values.size());
}

void indices_in_scopes(Place& place, std::span<const Scope> scopes, View<const std::uint32_t> indices,
                       View<std::uint32_t> within) {
  const Launch launch(place, "indices_in_scopes");
  const auto give = [&](const Parts<IndicesOfScope>& parts, unsigned blocks) {
    in_scopes_kernel<<<blocks, kThreads, 0, launch.stream()>>>(parts, indices.data(), within.data());
    launch.check();
  };
  PartBatches<IndicesOfScope, decltype(give)> batches(give);
  for (const Scope& scope : scopes) {
    batches.add({scope.first, scope.count, static_cast<std::uint32_t>(scope.offset)}, blocks_for(scope.count, kEntries));
  }
  batches.finish();
}

void count_below(Place& place, View<const std::uint32_t> indices, std::span<const std::uint64_t> bounds,
                 View<std::uint64_t> counts) {
  if (counts.empty()) return;
  const auto bound_at = [&](std::size_t i) { return bounds[i]; };
  with_list<std::uint64_t>(place, bounds.size(), bound_at, [&](const auto& list) {
    const Launch launch(place, "count_below");
    count_below_kernel<<<blocks_for(counts.size(), 1), kThreads, 0, launch.stream()>>>(
        indices.data(), indices.size(), list, counts.data(), static_cast<unsigned>(counts.size()));
    launch.check();
  });
}

void read_indices(Place& place, View<const std::uint32_t> indices, std::span<const std::uint64_t> positions,
                  View<std::uint64_t> found) {
  if (found.empty()) return;
  const auto position_at = [&](std::size_t i) { return positions[i]; };
  with_list<std::uint64_t>(place, positions.size(), position_at, [&](const auto& list) {
    const Launch launch(place, "read_indices");
    read_indices_kernel<<<blocks_for(found.size(), 1), kThreads, 0, launch.stream()>>>(
        indices.data(), list, found.data(), static_cast<unsigned>(found.size()));
    launch.check();
  });
}

}  // namespace laconic::cuda
