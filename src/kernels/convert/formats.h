#pragma once

#include <bit>
#include <cstdint>

// The conversions as integer formulas. They are the specification of kernels/convert and are exact in every flush mode
// of the processor.

namespace laconic::formats {

inline constexpr std::uint32_t kExponent = 0x7F80'0000U;
inline constexpr std::uint32_t kMagnitude = 0x7FFF'FFFFU;
inline constexpr std::uint32_t kRebias = (127U - 15U) << 23;              ///< binary16's exponent to binary32's
inline constexpr std::uint32_t kSmallestNormalHalf = (127U - 14U) << 23;  ///< 2^-14
inline constexpr std::uint32_t kAboveHalf = (127U + 16U) << 23;           ///< 2^16: rounding up to this gives Inf
inline constexpr std::uint32_t kOneHalf = 0x3F00'0000U;  ///< 0.5: its last bit is 2^-24, the smallest binary16 value

/// Adding 0.5 rounds a magnitude below 2^-14 to a multiple of 2^-24, ties to even; these are the subnormal halves.
constexpr std::uint16_t half_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & kMagnitude;
  std::uint32_t half = 0;
  if (magnitude > kExponent) {
    half = 0x7E00U | (magnitude >> 13 & 0x3FFU);
  } else if (magnitude < kSmallestNormalHalf) {
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - kOneHalf;
  } else {
    const std::uint32_t rounded = magnitude + 0xFFFU + (magnitude >> 13 & 1U);
    half = rounded >= kAboveHalf ? 0x7C00U : (rounded - kRebias) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

constexpr float float_of_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t shifted = (half & 0x7FFFU) << 13;
  std::uint32_t bits = 0;
  if (shifted >= 0x7C00U << 13) {
    bits = shifted + 2 * kRebias + (shifted > 0x7C00U << 13 ? 0x0040'0000U & ~shifted : 0U);
  } else if (shifted < 0x0400U << 13) {
    // m·2^-24 as (2^-14 + m·2^-24) - 2^-14, both exact.
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + kSmallestNormalHalf) -
                                        std::bit_cast<float>(kSmallestNormalHalf));
  } else {
    bits = shifted + kRebias;
  }
  return std::bit_cast<float>(sign | bits);
}

constexpr std::uint16_t bfloat_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & kMagnitude) > kExponent) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

constexpr float float_of_bfloat(std::uint16_t bfloat) {
  std::uint32_t bits = std::uint32_t{bfloat} << 16;
  if ((bits & kMagnitude) > kExponent) bits |= 0x0040'0000U;
  return std::bit_cast<float>(bits);
}

constexpr bool nonfinite_half(std::uint16_t half) { return (half & 0x7C00U) == 0x7C00U; }
constexpr bool nonfinite_bfloat(std::uint16_t bfloat) { return (bfloat & 0x7F80U) == 0x7F80U; }

}  // namespace laconic::formats
