#include <algorithm>
#include <bit>

#include "kernels/clones.h"
#include "kernels/convert/formats.h"
#include "kernels/convert/loops.h"

namespace laconic::portable {
namespace {

using formats::kAboveHalf;
using formats::kExponent;
using formats::kMagnitude;
using formats::kOneHalf;
using formats::kRebias;
using formats::kSmallestNormalHalf;

// A choice by masks instead of `? :`, of which compilers make branches that they cannot vectorise.

/// All ones where left < right, both below 2^31; otherwise zero.
LACONIC_INLINE std::uint32_t below(std::uint32_t left, std::uint32_t right) {
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(left - right) >> 31);
}
LACONIC_INLINE std::uint32_t choose(std::uint32_t mask, std::uint32_t yes, std::uint32_t no) {
  return (yes & mask) | (no & ~mask);
}

/// formats.h, every case computed and one chosen. `kInfinity`: the exponent's bits.
struct Half {
  static constexpr std::uint32_t kInfinity = 0x7C00U;

  LACONIC_INLINE static std::uint32_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & kMagnitude;
    const std::uint32_t rounded = magnitude + 0xFFFU + (magnitude >> 13 & 1U);  // may pass 2^31 for a NaN alone
    const std::uint32_t normal = choose(below(rounded, kAboveHalf), (rounded - kRebias) >> 13, kInfinity);
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - kOneHalf;
    const std::uint32_t nan = 0x7E00U | (magnitude >> 13 & 0x3FFU);
    const std::uint32_t number = choose(below(magnitude, kSmallestNormalHalf), subnormal, normal);
    return choose(below(kExponent, magnitude), nan, number) | (bits >> 16 & 0x8000U);
  }

  LACONIC_INLINE static float widen(std::uint32_t half) {
    const std::uint32_t shifted = (half & 0x7FFFU) << 13;
    const std::uint32_t normal = shifted + kRebias;
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + kSmallestNormalHalf) -
                                                                 std::bit_cast<float>(kSmallestNormalHalf));
    const std::uint32_t quiet = below(kInfinity << 13, shifted) & 0x0040'0000U;
    const std::uint32_t special = (normal + kRebias) | quiet;
    const std::uint32_t number = choose(below(shifted, 0x0400U << 13), subnormal, normal);
    return std::bit_cast<float>(choose(below(shifted, kInfinity << 13), number, special) | (half & 0x8000U) << 16);
  }
};

struct Bfloat {
  static constexpr std::uint32_t kInfinity = 0x7F80U;

  LACONIC_INLINE static std::uint32_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
    return choose(below(kExponent, bits & kMagnitude), bits >> 16 | 0x40U, rounded);
  }

  LACONIC_INLINE static float widen(std::uint32_t bfloat) {
    const std::uint32_t bits = bfloat << 16;
    return std::bit_cast<float>(bits | (below(kExponent, bits & kMagnitude) & 0x0040'0000U));
  }
};

/// Without its sign, as a number that vectors can compare.
LACONIC_INLINE std::int32_t magnitude_of(std::uint32_t narrowed) { return static_cast<std::int32_t>(narrowed & 0x7FFFU); }

template <class Format>
LACONIC_INLINE bool narrow_loop(const float* values, std::uint16_t* out, std::size_t n) {
  std::int32_t most = 0;
  LACONIC_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t narrowed = Format::narrow(values[i]);
    most = std::max(most, magnitude_of(narrowed));
    out[i] = static_cast<std::uint16_t>(narrowed);
  }
  return static_cast<std::uint32_t>(most) >= Format::kInfinity;
}

template <class Format>
LACONIC_INLINE void widen_loop(const std::uint16_t* values, float* out, std::size_t n) {
  LACONIC_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) out[i] = Format::widen(values[i]);
}

template <class Format>
LACONIC_INLINE bool round_loop(float* values, float* errors, std::size_t n) {
  std::int32_t most = 0;
  LACONIC_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t narrowed = Format::narrow(values[i]);
    const float widened = Format::widen(narrowed);
    most = std::max(most, magnitude_of(narrowed));
    errors[i] = values[i] - widened;
    values[i] = widened;
  }
  return static_cast<std::uint32_t>(most) >= Format::kInfinity;
}

}  // namespace

bool to_16bit(SimdLevel level, const float* values, ValueFormat format, std::uint16_t* out, std::size_t n) {
  return format == ValueFormat::f16 ? Clones<narrow_loop<Half>>::run(level, values, out, n)
                                    : Clones<narrow_loop<Bfloat>>::run(level, values, out, n);
}

void from_16bit(SimdLevel level, const std::uint16_t* values, ValueFormat format, float* out, std::size_t n) {
  format == ValueFormat::f16 ? Clones<widen_loop<Half>>::run(level, values, out, n)
                             : Clones<widen_loop<Bfloat>>::run(level, values, out, n);
}

bool round_through_16bit(SimdLevel level, ValueFormat format, float* values, float* errors, std::size_t n) {
  return format == ValueFormat::f16 ? Clones<round_loop<Half>>::run(level, values, errors, n)
                                    : Clones<round_loop<Bfloat>>::run(level, values, errors, n);
}

}  // namespace laconic::portable
