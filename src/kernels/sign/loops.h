#pragma once

#include <cstdint>

#include "kernels/sign/sign.h"

// The loops behind kernels/sign. Each works on a run of values that begins at a word.

namespace laconic::reference {
/// True if a value was NaN or Inf.
bool pack_signs(View<const float> values, std::uint32_t* words);
void unpack_signs(const std::uint32_t* words, float magnitude, View<float> values);
}  // namespace laconic::reference

namespace laconic::portable {
bool pack_signs(SimdLevel level, View<const float> values, std::uint32_t* words);
void unpack_signs(SimdLevel level, const std::uint32_t* words, float magnitude, View<float> values);
}  // namespace laconic::portable

namespace laconic::simd {
bool pack_signs(SimdLevel level, View<const float> values, std::uint32_t* words);
void unpack_signs(SimdLevel level, const std::uint32_t* words, float magnitude, View<float> values);
}  // namespace laconic::simd

// The CUDA twins, on a place's stream.
namespace laconic::cuda {
void pack_signs(Place& place, Each<SignsToPack> slices, StatusView status);
void unpack_signs(Place& place, Each<SignsToUnpack> slices, float magnitude);
}  // namespace laconic::cuda
