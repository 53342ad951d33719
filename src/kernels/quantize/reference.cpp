#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/bitpack/bitpack.h"
#include "kernels/bitpack/loops.h"
#include "kernels/quantize/loops.h"

namespace laconic {
namespace {

/// r in units of 2^-16.
float units_of(float value, const QuantizeScale& scale) {
  const float exact = std::fabs(value) * scale.scale * scale.multiplier;
  const float r = exact < scale.levels ? exact : scale.levels;  // NaN becomes the highest level
  return r * 65536.0F;
}

}  // namespace

bool tail_carries(float value, const QuantizeScale& scale, const RandomStream& rounding, std::uint64_t i) {
  const float units = units_of(value, scale);
  const auto rest = static_cast<std::uint32_t>((units - std::floor(units)) * 65536.0F);
  return rest + draw16(tail_stream(rounding), i) >= 65536;
}

}  // namespace laconic

namespace laconic::reference {
namespace {

/// The level of one value; i is its index in the tensor.
std::uint32_t level_of(float value, const QuantizeScale& scale, const RandomStream& rounding, std::uint64_t i) {
  const std::uint32_t sum = static_cast<std::uint32_t>(units_of(value, scale)) + draw16(rounding, i);
  const bool tie = (sum & 0xFFFF) == 0xFFFF;
  return (sum >> 16) + (tie && tail_carries(value, scale, rounding, i) ? 1 : 0);
}

std::uint32_t nearest_level(float value, const QuantizeScale& scale) {
  return (static_cast<std::uint32_t>(units_of(value, scale)) + kHalfLevel) >> 16;
}

}  // namespace

void quantize(View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer, std::byte* packed) {
  std::array<std::uint32_t, kPackGroup> fields;
  const int sign_bit = quantizer.bits - 1;
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup) {
    const std::size_t count = std::min<std::size_t>(kPackGroup, values.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      const float value = values[begin + i];
      const std::uint32_t level = level_of(value, scale, quantizer.rounding, quantizer.first + begin + i);
      fields[i] = level | static_cast<std::uint32_t>(std::signbit(value + 0.0F)) << sign_bit;
    }
    pack_fields({fields.data(), count}, quantizer.bits, packed + packed_bytes(begin, quantizer.bits));
  }
}

void quantize_scopes(View<const float> values, const ScopedRun& run, const Quantizer& quantizer, std::byte* packed) {
  std::array<std::uint32_t, kPackGroup> fields;
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup) {
    const std::size_t count = std::min<std::size_t>(kPackGroup, values.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      const float value = values[begin + i];
      const QuantizeScale scale = scope_scale(run.norms.of(begin + i), quantizer.bits);
      const std::uint32_t level = quantizer.kind == Rounding::nearest
                                      ? nearest_level(value, scale)
                                      : level_of(value, scale, quantizer.rounding, quantizer.first + begin + i);
      const bool negative = std::signbit(value + 0.0F);
      fields[i] = level | (negative ? scale.sign_mask : 0U);
      if (run.rest == nullptr) continue;
      const float magnitude = static_cast<float>(level) * scale.step;
      run.rest[begin + i] = value - (negative ? -magnitude : magnitude);
    }
    pack_fields({fields.data(), count}, quantizer.bits, packed + packed_bytes(begin, quantizer.bits));
  }
}

void dequantize_add_scopes(const std::byte* packed, const ScopeNorms& norms, int bits, View<float> values) {
  std::array<std::uint32_t, kPackGroup> fields;
  const std::uint32_t sign_mask = std::uint32_t{1} << (bits - 1);
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup) {
    const std::size_t count = std::min<std::size_t>(kPackGroup, values.size() - begin);
    unpack_fields(packed + packed_bytes(begin, bits), bits, {fields.data(), count});
    for (std::size_t i = 0; i < count; ++i) {
      const float magnitude =
          static_cast<float>(fields[i] & (sign_mask - 1)) * quantize_step(norms.of(begin + i), bits);
      values[begin + i] += (fields[i] & sign_mask) != 0 ? -magnitude : magnitude;
    }
  }
}

void dequantize_add(const std::byte* packed, float step, int bits, View<float> values) {
  std::array<std::uint32_t, kPackGroup> fields;
  const std::uint32_t sign_mask = std::uint32_t{1} << (bits - 1);
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup) {
    const std::size_t count = std::min<std::size_t>(kPackGroup, values.size() - begin);
    unpack_fields(packed + packed_bytes(begin, bits), bits, {fields.data(), count});
    for (std::size_t i = 0; i < count; ++i) {
      const float magnitude = static_cast<float>(fields[i] & (sign_mask - 1)) * step;
      values[begin + i] += (fields[i] & sign_mask) != 0 ? -magnitude : magnitude;
    }
  }
}

}  // namespace laconic::reference
