#pragma once

#include "kernels/quantize/quantize.h"

// The loops behind kernels/quantize: one stretch of values that begins at a group of kPackGroup.

namespace laconic {

/// What follows from norm and bits alone. norm > 0.
struct QuantizeScale {
  float scale;       ///< a power of two that brings the norm near 1 where that is needed
  float multiplier;  ///< s / (norm·scale)
  float levels;      ///< s
};
QuantizeScale quantize_scale(float norm, int bits);

/// The stream of the draws that decide where the first 16 bits tie.
Stream tail_stream(const Stream& rounding);

/// Whether the further bits carry into the level of value i, whose first 16 bits tie.
bool tail_carries(float value, const QuantizeScale& scale, const Stream& rounding, std::uint64_t i);

}  // namespace laconic

namespace laconic::reference {
void quantize(View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer, std::byte* packed);
/// `step` is the value of one level, norm / s.
void dequantize_add(const std::byte* packed, float step, int bits, View<float> values);
}  // namespace laconic::reference

namespace laconic::simd {
void quantize(SimdLevel level, View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
              std::byte* packed);
void dequantize_add(SimdLevel level, const std::byte* packed, float step, int bits, View<float> values);
}  // namespace laconic::simd
