#pragma once

#include <span>

#include "kernels/topk/topk.h"

namespace laconic {

/// out[indices[i]] += values[i]. Indices are distinct and below out.size(); the caller has checked that.
void scatter_add(Place& place, ConstSparseView entries, View<float> out);

/// out[indices[i]] = values[i], rounded to the type of `out`.
void scatter(Place& place, ConstSparseView entries, GradientView out);

/// values[i] = from[indices[i]].
void gather(Place& place, View<const float> from, View<const std::uint32_t> indices, View<float> values);

/// values[i] is the value of the entry at indices[i], or 0 if there is none. Both lists ascend.
void find_entries(Place& place, ConstSparseView entries, View<const std::uint32_t> indices, View<float> values);

/// within[i] is indices[i] less the offset of its scope. `indices` count from the start of a view, and are those of one
/// scope after another, scope.count of each.
void indices_in_scopes(Place& place, std::span<const Scope> scopes, View<const std::uint32_t> indices,
                       View<std::uint32_t> within);

/// counts[i], in CPU memory, is the number of the ascending indices below bounds[i]. Used to cut a list.
void count_below(Place& place, View<const std::uint32_t> indices, std::span<const std::uint64_t> bounds,
                 std::span<std::uint64_t> counts);

/// Reads a few entries of a list into CPU memory: found[i] = indices[positions[i]]. `found` may be `positions`.
void read_indices(Place& place, View<const std::uint32_t> indices, std::span<const std::uint64_t> positions,
                  std::span<std::uint64_t> found);

/// Sums sparse parts in rank order. `sum` receives every index that some part has, ascending, with the sum of its
/// values. Each sum begins with the first part that has the index and adds the others in order, so that a lone -0 stays
/// -0. Returns the number of entries. `sum` must have room for the sizes of all parts together.
std::uint64_t merge_sum(Place& place, std::span<const ConstSparseView> parts, SparseView sum);

}  // namespace laconic
