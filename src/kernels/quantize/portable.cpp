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

/// One scale for all rows of a group.
struct OneScale {
  const QuantizeScale& scale;
  LACONIC_INLINE const QuantizeScale& of_row(std::size_t) const { return scale; }
};

/// A scale for each scope that begins in a group. Scopes are whole rows.
struct GroupScales {
  std::array<QuantizeScale, kScopesOfGroup> scales;
  int shift;  ///< log2 of a scope's rows

  LACONIC_INLINE const QuantizeScale& of_row(std::size_t row) const { return scales[row >> shift]; }
  LACONIC_INLINE void take(const ScopeNorms& norms, std::size_t begin, int bits) {
    const std::size_t scope = kPackLanes << shift;
    for (std::size_t i = 0; i * scope < kPackGroup; ++i) scales[i] = scope_scale(norms.of(begin + i * scope), bits);
  }
};

/// log2 of the rows of a group that share a norm.
constexpr int row_shift(const ScopeNorms& norms) {
  const int of_group = std::countr_zero(kPackGroup);
  return (norms.shift < of_group ? norms.shift : of_group) - std::countr_zero(kPackLanes);
}

/// sums[i] = r·65536 + the random bits: the level stands above bit 16. The operations of the reference, in its order.
template <class Scales>
LACONIC_INLINE void sum_group(const float* values, const Scales& scales, const Quantizer& quantizer,
                              std::uint64_t first, Group& sums) {
  for (std::size_t part = 0; part < kPackGroup; part += kDrawValues) {
    PhiloxLanes random;
    if (quantizer.kind == Rounding::nearest) {
      for (auto& words : random) words.fill(kHalfLevel << 16 | kHalfLevel);
    } else {
      draw_lanes(quantizer.rounding, (first + part) / kDrawValues * kPhiloxLanes, random);
    }
    for (std::size_t row = 0; row < kDrawRows; ++row) {
      const std::size_t begin = part + row * kPackLanes;
      const QuantizeScale& scale = scales.of_row(begin / kPackLanes);
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
template <class Scales>
[[gnu::noinline]] void settle_ties(const float* values, const Scales& scales, const RandomStream& rounding,
                                   std::uint64_t first, Group& sums) {
  for (std::size_t i = 0; i < kPackGroup; ++i) {
    if ((sums[i] & kTie) != kTie) continue;
    if (tail_carries(values[i], scales.of_row(i / kPackLanes), rounding, first + i)) ++sums[i];
  }
}

/// The levels of a group.
template <class Scales>
LACONIC_INLINE void round_group(const float* values, const Scales& scales, const Quantizer& quantizer,
                                std::uint64_t first, Group& levels) {
  sum_group(values, scales, quantizer, first, levels);
  std::uint32_t carried = 0;  // bit 16 where the low bits are all ones
  for (std::size_t i = 0; i < kPackGroup; ++i) carried |= (levels[i] & kTie) + 1;
  if (carried > kTie && quantizer.kind == Rounding::stochastic) {
    settle_ties(values, scales, quantizer.rounding, first, levels);
  }
  for (std::size_t i = 0; i < kPackGroup; ++i) levels[i] >>= 16;
}

LACONIC_INLINE void quantize_groups(View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
                                    std::byte* packed) {
  const int sign_bit = quantizer.bits - 1;
  Group fields;
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup) {
    const float* group = values.data() + begin;
    round_group(group, OneScale{scale}, quantizer, quantizer.first + begin, fields);
    for (std::size_t i = 0; i < kPackGroup; ++i) {
      fields[i] |= std::bit_cast<std::uint32_t>(group[i] + 0.0F) >> 31 << sign_bit;  // -0 + 0 is +0
    }
    pack_group(fields.data(), quantizer.bits, packed);
    packed += packed_bytes(kPackGroup, quantizer.bits);
  }
}

/// rest = value − the level's value; then the fields.
LACONIC_INLINE void finish_row(const float* values, const QuantizeScale& scale, int bits, std::uint32_t* fields,
                               float* rest) {
  if (rest != nullptr) {
    LACONIC_INDEPENDENT
    for (std::size_t lane = 0; lane < kPackLanes; ++lane) {
      const float magnitude = static_cast<float>(static_cast<std::int32_t>(fields[lane])) * scale.step;
      const std::uint32_t sign = std::bit_cast<std::uint32_t>(values[lane] + 0.0F) & 0x8000'0000U;
      rest[lane] = values[lane] - std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) ^ sign);
    }
  }
  for (std::size_t lane = 0; lane < kPackLanes; ++lane) {
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(values[lane] + 0.0F) >> (32 - bits);
    fields[lane] |= sign & scale.sign_mask;
  }
}

LACONIC_INLINE void quantize_scope_groups(View<const float> values, const ScopedRun& run, const Quantizer& quantizer,
                                          std::byte* packed) {
  Group fields;
  GroupScales scales{{}, row_shift(run.norms)};
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup) {
    const float* group = values.data() + begin;
    scales.take(run.norms, begin, quantizer.bits);
    round_group(group, scales, quantizer, quantizer.first + begin, fields);
    for (std::size_t row = 0; row < kPackGroup / kPackLanes; ++row) {
      const std::size_t at = row * kPackLanes;
      finish_row(group + at, scales.of_row(row), quantizer.bits, fields.data() + at,
                 run.rest == nullptr ? nullptr : run.rest + begin + at);
    }
    pack_group(fields.data(), quantizer.bits, packed);
    packed += packed_bytes(kPackGroup, quantizer.bits);
  }
}

/// values[i] += value of field i, for `count` fields that share a step.
LACONIC_INLINE void add_fields(const std::uint32_t* fields, std::size_t count, float step, int bits, float* values) {
  const std::uint32_t level_mask = field_mask(bits - 1);
  for (std::size_t i = 0; i < count; ++i) {
    const float magnitude = static_cast<float>(static_cast<std::int32_t>(fields[i] & level_mask)) * step;
    const std::uint32_t sign = fields[i] << (32 - bits) & 0x8000'0000U;
    values[i] += std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) ^ sign);
  }
}

LACONIC_INLINE void dequantize_groups(const std::byte* packed, float step, int bits, View<float> values) {
  Group fields;
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup) {
    unpack_group(packed, bits, fields.data());
    packed += packed_bytes(kPackGroup, bits);
    add_fields(fields.data(), kPackGroup, step, bits, values.data() + begin);
  }
}

LACONIC_INLINE void dequantize_scope_groups(const std::byte* packed, const ScopeNorms& norms, int bits,
                                            View<float> values) {
  const std::size_t scope = kPackLanes << row_shift(norms);
  Group fields;
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup) {
    unpack_group(packed, bits, fields.data());
    packed += packed_bytes(kPackGroup, bits);
    for (std::size_t i = 0; i < kPackGroup; i += scope) {
      const float step = quantize_step(norms.of(begin + i), bits);
      add_fields(fields.data() + i, scope, step, bits, values.data() + begin + i);
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

void quantize_scopes(SimdLevel level, View<const float> values, const ScopedRun& run, const Quantizer& quantizer,
                     std::byte* packed) {
  const std::size_t done = values.size() / kPackGroup * kPackGroup;
  Clones<quantize_scope_groups>::run(level, values.sub(0, done), run, quantizer, packed);
  Quantizer rest = quantizer;
  rest.first += done;
  reference::quantize_scopes(values.sub(done, values.size() - done), run_from(run, done), rest,
                             packed + packed_bytes(done, quantizer.bits));
}

void dequantize_add_scopes(SimdLevel level, const std::byte* packed, const ScopeNorms& norms, int bits,
                           View<float> values) {
  const std::size_t done = values.size() / kPackGroup * kPackGroup;
  Clones<dequantize_scope_groups>::run(level, packed, norms, bits, values.sub(0, done));
  reference::dequantize_add_scopes(packed + packed_bytes(done, bits), norms_from(norms, done), bits,
                                   values.sub(done, values.size() - done));
}

}  // namespace laconic::portable
