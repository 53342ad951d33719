#pragma once

#include <cstdint>
#include <span>

#include "base/each.h"
#include "base/layout.h"
#include "base/philox.h"
#include "laconic/gradient_view.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/view.h"

namespace laconic {

/// Uniform stochastic quantization (DQ-SGD, QSGD): a field of `bits` is a sign (top bit) and a level 0..s,
/// s = 2^(bits-1) - 1. r = |x|·s/norm in float32, rounded up with probability frac(r), exact to 2^-32:
///   scale is a power of two (1, or 2^±64 if s/norm would overflow or lose bits);
///   r = min((|x|·scale)·(s / (norm·scale)), s), no fused operation;
///   r·65536 is truncated to an integer and draw16(rounding, i) is added; the level is in the bits from bit 16 on;
///   if those 16 bits sum to 65535, the next 16 bits of r's fraction and draw16(tail, i) decide the carry.
/// A norm of zero gives all zeros. The sign of -0 is plus, as in votes. The value of a level is
/// sign · (level · (norm / s)).
/// Rounding to nearest draws nothing: the level is floor(r + 1/2), so half a level is rounded up in magnitude.
enum class Rounding : std::uint8_t { stochastic, nearest };

struct Quantizer {
  int bits = 8;             ///< 2..16
  RandomStream rounding;          ///< its purpose determines the tail's purpose: rounding_tail or return_tail
  std::uint64_t first = 0;  ///< index in the tensor of the first value: a multiple of kPackGroup
  Rounding kind = Rounding::stochastic;
  /// Entries of a fixed scope: entry i of the values has norms[i / scope]. 0: one norm for all of them. Otherwise as
  /// require_fixed_scope has it, and `first` is a multiple of it too.
  std::uint64_t scope = 0;
};

/// The number of norms of n values.
constexpr std::uint64_t norms_of(std::uint64_t n, std::uint64_t scope) {
  return scope == 0 ? 1 : (n + scope - 1) / scope;
}

/// Bytes of n packed fields; layout as in kernels/bitpack.
std::uint64_t quantized_bytes(std::uint64_t n, int bits);

/// `norms` are floats in the place's memory, >= 0 and finite: norms_of(n, quantizer.scope). packed.size() must be
/// quantized_bytes(n, bits). If `rest` is not empty, rest[i] = values[i] − the value of field i; it must not overlap
/// the values.
void quantize(Place& place, ConstGradientView values, View<const float> norms, const Quantizer& quantizer,
              View<std::byte> packed, View<float> rest = {});

/// Parts of several tensors, all of one type, on a device in a few launches. The quantizer gives everything but the
/// tensor and the first index. `packed` may be longer than the fields; the rest of it becomes zero.
struct QuantizeSlice {
  ConstGradientView values;
  View<const float> norms;
  View<std::byte> packed;
  std::uint32_t tensor;  ///< its number in the model
  std::uint64_t first;   ///< index in the tensor of the first value
  View<float> rest{};
};
void quantize(Place& place, Each<QuantizeSlice> slices, const Quantizer& quantizer);

/// values[i] += value of field i. `norms` and `scope` as above.
void dequantize_add(Place& place, View<const std::byte> packed, View<const float> norms, int bits, View<float> values,
                    std::uint64_t scope = 0);

struct DequantizeSlice {
  View<const std::byte> packed;
  View<const float> norms;
  View<float> values;
};
void dequantize_add(Place& place, Each<DequantizeSlice> slices, int bits, std::uint64_t scope = 0);

/// A slice whose norms and fields lie at the same offsets of several payloads.
struct DequantizeSection {
  std::uint64_t norms_offset;  ///< in bytes, a multiple of 4, like fields_offset
  std::uint64_t fields_offset;
  GradientView values;
};
/// values[i] = the sum over the payloads, in their order, of the value of field i, divided by `divisor` and rounded to
/// the type of the values, which is one for all sections. One pass over the values; the sum is made in float32 and
/// starts with the first payload's value. There is at least one payload, and all have the same size and lie at
/// multiples of 4 bytes. Sets status.nonfinite if a quotient is NaN or Inf before it is rounded.
void dequantize_sum(Place& place, std::span<const View<const std::byte>> payloads, Each<DequantizeSection> sections,
                    int bits, std::uint64_t scope, float divisor, StatusView status);

}  // namespace laconic
