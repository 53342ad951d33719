#pragma once

#include <bit>

#include "kernels/bitpack/bitpack.h"
#include "kernels/quantize/quantize.h"

// The loops behind kernels/quantize. Each works on a run of values that begins at a group of kPackGroup.

namespace laconic {

/// The value of one level.
constexpr float quantize_step(float norm, int bits) { return norm / static_cast<float>((1 << (bits - 1)) - 1); }

/// Constants that depend only on norm and bits.
struct QuantizeScale {
  float scale;              ///< a power of two that brings the norm near 1 if that is needed
  float multiplier;         ///< s / (norm·scale)
  float levels;             ///< s
  float step;               ///< the value of one level
  std::uint32_t sign_mask;  ///< the bit of a field that is the sign
};
/// norm > 0.
constexpr QuantizeScale quantize_scale(float norm, int bits) {
  const float scale = norm < 0x1p-64F ? 0x1p64F : norm > 0x1p64F ? 0x1p-64F : 1.0F;
  const auto levels = static_cast<float>((1 << (bits - 1)) - 1);
  return {scale, levels / (norm * scale), levels, quantize_step(norm, bits), 1U << (bits - 1)};
}
/// Any norm: with one that is not above 0 every value, NaN included, becomes the field 0.
constexpr QuantizeScale scope_scale(float norm, int bits) {
  return norm > 0.0F ? quantize_scale(norm, bits) : QuantizeScale{};
}

/// The norms of a run of values that begins with a scope.
struct ScopeNorms {
  const float* norms;
  int shift;  ///< log2 of a scope's entries, or kOneNorm

  constexpr float of(std::uint64_t i) const { return norms[i >> shift]; }
};
inline constexpr int kOneNorm = 63;

/// The norms of entries [begin, end), which begin with a scope or lie in one.
constexpr ScopeNorms norms_in(const float* norms, int shift, std::uint64_t begin, std::uint64_t end) {
  const bool one = begin >> shift == (end - 1) >> shift;
  return {norms + (begin >> shift), one ? kOneNorm : shift};
}
inline constexpr std::size_t kScopesOfGroup = kPackGroup / kLeastScope;  ///< at most

/// A run that is not the simple one below: fixed scopes, rounding to nearest, or a rest.
struct ScopedRun {
  ScopeNorms norms;
  float* rest;  ///< null: not wanted
};

/// A run without the full groups before `done`. Fewer than kPackGroup values are left, so no scope that is larger than
/// a group ends among them.
constexpr ScopeNorms norms_from(const ScopeNorms& norms, std::uint64_t done) {
  return {norms.norms + (done >> norms.shift), norms.shift};
}
constexpr ScopedRun run_from(const ScopedRun& run, std::uint64_t done) {
  return {norms_from(run.norms, done), run.rest == nullptr ? nullptr : run.rest + done};
}

/// What rounding to nearest adds to units of 2^-16 where stochastic rounding adds a draw.
inline constexpr std::uint32_t kHalfLevel = 0x8000;

/// The stream of the draws that decide when the first 16 bits tie.
constexpr RandomStream tail_stream(const RandomStream& rounding) {
  return rounding.with(rounding.purpose == Purpose::return_rounding ? Purpose::return_tail : Purpose::rounding_tail);
}

/// log2 of a scope's entries.
constexpr int scope_shift(std::uint64_t scope) { return scope == 0 ? kOneNorm : std::countr_zero(scope); }

/// Whether the further bits carry into the level of value i, whose first 16 bits tie.
bool tail_carries(float value, const QuantizeScale& scale, const RandomStream& rounding, std::uint64_t i);

}  // namespace laconic

namespace laconic::reference {
void quantize(View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer, std::byte* packed);
void quantize_scopes(View<const float> values, const ScopedRun& run, const Quantizer& quantizer, std::byte* packed);
/// `step` is quantize_step.
void dequantize_add(const std::byte* packed, float step, int bits, View<float> values);
void dequantize_add_scopes(const std::byte* packed, const ScopeNorms& norms, int bits, View<float> values);
}  // namespace laconic::reference

namespace laconic::portable {
void quantize(SimdLevel level, View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
              std::byte* packed);
void quantize_scopes(SimdLevel level, View<const float> values, const ScopedRun& run, const Quantizer& quantizer,
                     std::byte* packed);
void dequantize_add(SimdLevel level, const std::byte* packed, float step, int bits, View<float> values);
void dequantize_add_scopes(SimdLevel level, const std::byte* packed, const ScopeNorms& norms, int bits,
                           View<float> values);
}  // namespace laconic::portable

namespace laconic::simd {
void quantize(SimdLevel level, View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
              std::byte* packed);
void quantize_scopes(SimdLevel level, View<const float> values, const ScopedRun& run, const Quantizer& quantizer,
                     std::byte* packed);
void dequantize_add(SimdLevel level, const std::byte* packed, float step, int bits, View<float> values);
void dequantize_add_scopes(SimdLevel level, const std::byte* packed, const ScopeNorms& norms, int bits,
                           View<float> values);
}  // namespace laconic::simd

// The CUDA twins, on a place's stream. Their contracts are those of quantize.h.
namespace laconic::cuda {
void quantize(Place& place, Each<QuantizeSlice> slices, const Quantizer& quantizer);
void dequantize_add(Place& place, Each<DequantizeSlice> slices, int bits, std::uint64_t scope);
void dequantize_sum(Place& place, std::span<const View<const std::byte>> payloads, Each<DequantizeSection> sections,
                    int bits, std::uint64_t scope, float divisor, StatusView status);
}  // namespace laconic::cuda
