#include <array>
#include <bit>
#include <cmath>

#include "kernels/bitpack/portable_groups.h"
#include "kernels/philox_lanes.h"
#include "kernels/quantize/loops.h"

namespace laconic::portable {
namespace {

constexpr std::size_t kDrawRows = 8;  // rows of 16 values that sixteen blocks serve, a half-word each
constexpr std::size_t kDrawValues = kDrawRows * kPackLanes;
constexpr std::uint32_t kTie = 0xFFFF;

using Group = std::array<std::uint32_t, kPackGroup>;

/// sums[i] = r·65536 + the random bits: the level stands above bit 16. The operations of the reference, in its order.
LACONIC_INLINE void sum_group(const float* values, const QuantizeScale& scale, const RandomStream& rounding,
                              std::uint64_t first, Group& sums) {
  for (std::size_t part = 0; part < kPackGroup; part += kDrawValues) {
    PhiloxLanes random;
    draw_lanes(rounding, (first + part) / kDrawValues * kPhiloxLanes, random);
    for (std::size_t row = 0; row < kDrawRows; ++row) {
      const std::size_t begin = part + row * kPackLanes;
      const int shift = row % 2 == 0 ? 0 : 16;
      for (std::size_t lane = 0; lane < kPackLanes; ++lane) {
        const float exact = std::fabs(values[begin + lane]) * scale.scale * scale.multiplier;
        const float r = exact < scale.levels ? exact : scale.levels;  // NaN becomes the highest level
        const auto units = static_cast<std::int32_t>(r * 65536.0F);   // below 2^31
        sums[begin + lane] = static_cast<std::uint32_t>(units) + (random[row / 2][lane] >> shift & 0xFFFF);
      }
    }
  }
}

/// One group in 130 has a fraction that ties with its draw; the further bits settle it, and a carry raises the level.
[[gnu::noinline]] void settle_ties(const float* values, const QuantizeScale& scale, const RandomStream& rounding,
                                   std::uint64_t first, Group& sums) {
  for (std::size_t i = 0; i < kPackGroup; ++i) {
    if ((sums[i] & kTie) == kTie && tail_carries(values[i], scale, rounding, first + i)) ++sums[i];
  }
}

LACONIC_INLINE void quantize_groups(View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
                                    std::byte* packed) {
  const int sign_bit = quantizer.bits - 1;
  Group sums;
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup) {
    const float* group = values.data() + begin;
    const std::uint64_t first = quantizer.first + begin;
    sum_group(group, scale, quantizer.rounding, first, sums);
    std::uint32_t carried = 0;  // bit 16 where the low bits are all ones
    for (std::size_t i = 0; i < kPackGroup; ++i) carried |= (sums[i] & kTie) + 1;
    if (carried > kTie) settle_ties(group, scale, quantizer.rounding, first, sums);
    for (std::size_t i = 0; i < kPackGroup; ++i) {
      sums[i] = sums[i] >> 16 | std::bit_cast<std::uint32_t>(group[i] + 0.0F) >> 31 << sign_bit;  // -0 + 0 is +0
    }
    pack_group(sums.data(), quantizer.bits, packed);
    packed += packed_bytes(kPackGroup, quantizer.bits);
  }
}

LACONIC_INLINE void dequantize_groups(const std::byte* packed, float step, int bits, View<float> values) {
  const std::uint32_t level_mask = field_mask(bits - 1);
  Group fields;
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup) {
    unpack_group(packed, bits, fields.data());
    packed += packed_bytes(kPackGroup, bits);
    float* group = values.data() + begin;
    for (std::size_t i = 0; i < kPackGroup; ++i) {
      const float magnitude = static_cast<float>(static_cast<std::int32_t>(fields[i] & level_mask)) * step;
      const std::uint32_t sign = fields[i] << (32 - bits) & 0x8000'0000U;
      group[i] += std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) ^ sign);
    }
  }
}

}  // namespace

// The vectors take whole groups; what follows the last is short, and the reference's loop serves every level.

void quantize(SimdLevel level, View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
              std::byte* packed) {
  const std::size_t done = values.size() / kPackGroup * kPackGroup;
  Clones<quantize_groups>::run(level, values.sub(0, done), scale, quantizer, packed);
  Quantizer rest = quantizer;
  rest.first += done;
  reference::quantize(values.sub(done, values.size() - done), scale, rest, packed + packed_bytes(done, quantizer.bits));
}

void dequantize_add(SimdLevel level, const std::byte* packed, float step, int bits, View<float> values) {
  const std::size_t done = values.size() / kPackGroup * kPackGroup;
  Clones<dequantize_groups>::run(level, packed, step, bits, values.sub(0, done));
  reference::dequantize_add(packed + packed_bytes(done, bits), step, bits, values.sub(done, values.size() - done));
}

}  // namespace laconic::portable
