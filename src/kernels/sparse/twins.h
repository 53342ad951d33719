#pragma once

#include "kernels/sparse/sparse.h"

// The twins, on a place's stream; contracts as in sparse.h.
namespace laconic::cuda {
void scatter_add(Place& place, ConstSparseView entries, View<float> out);
void scatter(Place& place, ConstSparseView entries, View<float> out);
void gather(Place& place, View<const float> from, View<const std::uint32_t> indices, View<float> values);
void shift_indices(Place& place, std::uint64_t by, View<std::uint32_t> indices);
void copy_indices(Place& place, View<const std::uint32_t> from, View<std::uint32_t> to);
}  // namespace laconic::cuda
