#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convert/convert.h"

// The loops behind kernels/convert. Those that return bool return whether a result is NaN or Inf.

namespace laconic {

namespace reference {
bool to_16bit(const float* values, ValueFormat format, std::uint16_t* out, std::size_t n);
void from_16bit(const std::uint16_t* values, ValueFormat format, float* out, std::size_t n);
void add_from_16bit(const std::uint16_t* values, ValueFormat format, float* out, std::size_t n);
bool round_through_16bit(ValueFormat format, float* values, float* errors, std::size_t n);
}  // namespace reference

namespace portable {
bool to_16bit(SimdLevel level, const float* values, ValueFormat format, std::uint16_t* out, std::size_t n);
void from_16bit(SimdLevel level, const std::uint16_t* values, ValueFormat format, float* out, std::size_t n);
void add_from_16bit(SimdLevel level, const std::uint16_t* values, ValueFormat format, float* out, std::size_t n);
bool round_through_16bit(SimdLevel level, ValueFormat format, float* values, float* errors, std::size_t n);
}  // namespace portable

namespace simd {
bool to_16bit(SimdLevel level, const float* values, ValueFormat format, std::uint16_t* out, std::size_t n);
void from_16bit(SimdLevel level, const std::uint16_t* values, ValueFormat format, float* out, std::size_t n);
void add_from_16bit(SimdLevel level, const std::uint16_t* values, ValueFormat format, float* out, std::size_t n);
bool round_through_16bit(SimdLevel level, ValueFormat format, float* values, float* errors, std::size_t n);
}  // namespace simd

}  // namespace laconic
