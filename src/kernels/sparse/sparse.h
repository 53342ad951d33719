#pragma once

#include <span>

#include "kernels/topk/topk.h"

namespace laconic {

/// out[indices[i]] += values[i]. Indices are distinct and below out.size(): the caller has checked them.
void scatter_add(Place& place, ConstSparseView entries, View<float> out);

/// out[indices[i]] = values[i].
void scatter(Place& place, ConstSparseView entries, View<float> out);

/// values[i] = from[indices[i]].
void gather(Place& place, View<const float> from, View<const std::uint32_t> indices, View<float> values);

/// Sums sparse parts in rank order: `sum` receives every index that some part has, ascending, with the sum of the
/// values of the parts that have it, in the parts' order and beginning with the first. Returns how many, at most the parts' sizes together, which `sum` must
/// hold.
std::uint64_t merge_sum(Place& place, std::span<const ConstSparseView> parts, SparseView sum);

}  // namespace laconic
