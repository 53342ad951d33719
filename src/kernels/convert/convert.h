#pragma once

#include <cstdint>

#include "laconic/gradient_view.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/view.h"

namespace laconic {

/// The format in which values are sent. The numbers are sent on the wire. `sign` and `two` are signs and magnitudes that
/// the entries of a scope share (kernels/coded); only sparse payloads have them.
enum class ValueFormat : std::uint8_t { f32 = 0, f16 = 1, bf16 = 2, sign = 3, two = 4 };

constexpr bool is_coded(ValueFormat format) { return format == ValueFormat::sign || format == ValueFormat::two; }
/// Of a format that is not coded.
constexpr std::uint64_t bytes_of(ValueFormat format) { return format == ValueFormat::f32 ? 4 : 2; }
const char* format_name(ValueFormat format);
/// The format with the same bits.
constexpr ValueFormat format_of(NumberType type) {
  if (type == NumberType::float32) return ValueFormat::f32;
  return type == NumberType::float16 ? ValueFormat::f16 : ValueFormat::bf16;
}

/// The type of a format that is not coded.
constexpr NumberType type_of(ValueFormat format) {
  if (format == ValueFormat::f32) return NumberType::float32;
  return format == ValueFormat::f16 ? NumberType::float16 : NumberType::bfloat16;
}

/// Copies entries and changes their type, by the rules of to_16bit and from_16bit. If there is a status, sets
/// status.nonfinite if an entry of `to` is NaN or Inf. The views must not overlap.
void convert(Place& place, ConstGradientView from, GradientView to, StatusView status = {});

/// Converts to IEEE binary16 or bfloat16, rounding to nearest with ties to even and keeping subnormals. Sets
/// status.nonfinite if a value is NaN or Inf, or is finite and overflows. format must be f16 or bf16. Matches hardware
/// conversion bit for bit; a NaN becomes a quiet NaN.
void to_16bit(Place& place, View<const float> values, ValueFormat format, View<std::uint16_t> out, StatusView status);
void from_16bit(Place& place, View<const std::uint16_t> values, ValueFormat format, View<float> out);

/// Replaces `values` by what a receiver of that format will see. errors[i] = values[i] before - after, exact in float32
/// unless it underflows. Used for the residuals of values sent in 16 bits.
void round_through_16bit(Place& place, ValueFormat format, View<float> values, View<float> errors, StatusView status);

}  // namespace laconic
