#pragma once

#include "kernels/quantize/quantize.h"

// The loops behind kernels/quantize. Each works on a run of values that begins at a group of kPackGroup.

namespace laconic {

/// Constants that depend only on norm and bits. norm > 0.
struct QuantizeScale {
  float scale;       ///< a power of two that brings the norm near 1 if that is needed
  float multiplier;  ///< s / (norm·scale)
  float levels;      ///< s
};
constexpr QuantizeScale quantize_scale(float norm, int bits) {
  const float scale = norm < 0x1p-64F ? 0x1p64F : norm > 0x1p64F ? 0x1p-64F : 1.0F;
  const auto levels = static_cast<float>((1 << (bits - 1)) - 1);
  return {scale, levels / (norm * scale), levels};
}

/// The value of one level.
constexpr float quantize_step(float norm, int bits) { return norm / static_cast<float>((1 << (bits - 1)) - 1); }

/// The stream of the draws that decide when the first 16 bits tie.
constexpr RandomStream tail_stream(const RandomStream& rounding) {
  return rounding.with(rounding.purpose == Purpose::return_rounding ? Purpose::return_tail : Purpose::rounding_tail);
}

/// Whether the further bits carry into the level of value i, whose first 16 bits tie.
bool tail_carries(float value, const QuantizeScale& scale, const RandomStream& rounding, std::uint64_t i);

}  // namespace laconic

namespace laconic::reference {
void quantize(View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer, std::byte* packed);
/// `step` is quantize_step.
void dequantize_add(const std::byte* packed, float step, int bits, View<float> values);
}  // namespace laconic::reference

namespace laconic::portable {
void quantize(SimdLevel level, View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
              std::byte* packed);
void dequantize_add(SimdLevel level, const std::byte* packed, float step, int bits, View<float> values);
}  // namespace laconic::portable

namespace laconic::simd {
void quantize(SimdLevel level, View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
              std::byte* packed);
void dequantize_add(SimdLevel level, const std::byte* packed, float step, int bits, View<float> values);
}  // namespace laconic::simd

// The CUDA twins, on a place's stream. Their contracts are those of quantize.h.
namespace laconic::cuda {
void quantize(Place& place, Each<QuantizeSlice> slices, int bits, const RandomStream& rounding);
void dequantize_add(Place& place, Each<DequantizeSlice> slices, int bits);
}  // namespace laconic::cuda
