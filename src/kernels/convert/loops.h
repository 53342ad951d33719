#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convert/convert.h"

// The loops behind kernels/convert. Those that return bool return whether a result is NaN or Inf.

namespace laconic {

namespace reference {
bool to_16bit(const float* values, ValueFormat format, std::uint16_t* out, std::size_t n);
void from_16bit(const std::uint16_t* values, ValueFormat format, float* out, std::size_t n);
bool round_through_16bit(ValueFormat format, float* values, float* errors, std::size_t n);
}  // namespace reference

namespace portable {
bool to_16bit(SimdLevel level, const float* values, ValueFormat format, std::uint16_t* out, std::size_t n);
void from_16bit(SimdLevel level, const std::uint16_t* values, ValueFormat format, float* out, std::size_t n);
bool round_through_16bit(SimdLevel level, ValueFormat format, float* values, float* errors, std::size_t n);
}  // namespace portable

namespace simd {
bool to_16bit(SimdLevel level, const float* values, ValueFormat format, std::uint16_t* out, std::size_t n);
void from_16bit(SimdLevel level, const std::uint16_t* values, ValueFormat format, float* out, std::size_t n);
bool round_through_16bit(SimdLevel level, ValueFormat format, float* values, float* errors, std::size_t n);
}  // namespace simd

// The twins, on a place's stream.
namespace cuda {
void convert(Place& place, ConstGradientView from, GradientView to, StatusView status);
void to_16bit(Place& place, View<const float> values, ValueFormat format, View<std::uint16_t> out, StatusView status);
void from_16bit(Place& place, View<const std::uint16_t> values, ValueFormat format, View<float> out);
void round_through_16bit(Place& place, ValueFormat format, View<float> values, View<float> errors, StatusView status);
}  // namespace cuda

}  // namespace laconic
