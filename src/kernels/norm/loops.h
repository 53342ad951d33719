#pragma once

#include <cstdint>

#include "kernels/norm/norm.h"

// The loops behind kernels/norm: one result per block of kNormBlock values. The last block may be shorter.

namespace laconic {
/// For sums of squares what NormPart is for norms.
struct SquaresPart {
  ConstGradientView values;
  View<double> result;
};
}  // namespace laconic

namespace laconic::reference {
/// The sum of squares of each block, in the tree that norm.h describes.
void block_squares(View<const float> values, double* sums);
/// The largest magnitude of each block, as bits. In this order Inf is above all numbers, and NaN is above Inf.
void block_largest(View<const float> values, std::uint32_t* largest);
}  // namespace laconic::reference

namespace laconic::portable {
void block_squares(SimdLevel level, View<const float> values, double* sums);
void block_largest(SimdLevel level, View<const float> values, std::uint32_t* largest);
}  // namespace laconic::portable

namespace laconic::simd {
void block_squares(SimdLevel level, View<const float> values, double* sums);
void block_largest(SimdLevel level, View<const float> values, std::uint32_t* largest);
}  // namespace laconic::simd

// The twins, on a place's stream; contracts as in norm.h. Those that answer the CPU there answer in the place's memory
// here.
namespace laconic::cuda {
void norms(Place& place, Each<NormPart> parts, Norm kind, StatusView status);
void scope_norms(Place& place, ConstGradientView values, std::uint64_t scope, Norm kind, View<float> norms,
                 StatusView status);
void sums_of_squares(Place& place, Each<SquaresPart> parts, StatusView status);
void squared_distance(Place& place, View<const float> x, View<const float> y, View<double> result);
void mean_magnitude(Place& place, View<const float> values, View<float> result);
}  // namespace laconic::cuda
