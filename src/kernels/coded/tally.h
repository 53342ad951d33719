#pragma once

// The arithmetic of code_values, for the CPU and devices. Sums of magnitudes are whole numbers, so every order of a sum
// gives the same bits.

#include <bit>
#include <cstdint>

#include "kernels/coded/coded.h"
#include "kernels/topk/selection.h"

namespace laconic::coded {

using topk::key_of;
using topk::kNonfiniteKey;

/// What is known of a scope's entries.
struct Tally {
  std::uint32_t highest;  ///< largest key
  float mean;             ///< of |p|
  unsigned long long count;
  unsigned long long sum;  ///< of |p|, in units that `highest` and `count` decide
  unsigned long long above;      ///< entries with |p| > mean
  unsigned long long above_sum;
  float low;  ///< mean of the others
  float high;

  constexpr bool finite() const { return highest < kNonfiniteKey; }

  /// Bits below the binary point, where 1 is the power of two above every magnitude of the scope. The sum of all entries
  /// has fewer than 64 bits.
  constexpr int fraction() const { return count < 1U << 23 ? 40 : 31; }

  /// |p| in these units, rounded down. A float has 24 bits, so it is exact unless p is far below the largest.
  constexpr unsigned long long fixed(std::uint32_t key) const {
    const std::uint32_t mantissa = key & 0x7F'FFFFU;
    const int down = exponent(highest) - exponent(key) + 24 - fraction();
    const unsigned long long whole = key >> 23 != 0 ? mantissa | 0x80'0000U : mantissa;
    if (down <= 0) return whole << -down;
    return down < 64 ? whole >> down : 0;
  }

  constexpr float mean_of(unsigned long long total, unsigned long long entries) const {
    if (entries == 0 || !finite()) return 0.0F;
    const int power = exponent(highest) - 126 - fraction();
    const auto unit = std::bit_cast<double>(static_cast<std::uint64_t>(power + 1023) << 52);
    return static_cast<float>(static_cast<double>(total) * unit / static_cast<double>(entries));
  }

  constexpr void set_mean() { mean = mean_of(sum, count); }
  constexpr void set_two() {
    high = mean_of(above_sum, above);
    low = mean_of(sum - above_sum, count - above);
  }

  constexpr float coded(ValueFormat format, float value) const {
    const float magnitude = format == ValueFormat::sign ? mean : is_above(value) ? high : low;
    return value < 0.0F ? -magnitude : magnitude;
  }
  constexpr bool is_above(float value) const { return key_of(value) > std::bit_cast<std::uint32_t>(mean); }

 private:
  /// Subnormals have the exponent of the smallest normal number.
  static constexpr int exponent(std::uint32_t key) { return key >> 23 != 0 ? static_cast<int>(key >> 23) : 1; }
};

/// Keys of the least and the largest magnitude of a scope's entries, for an encoder.
struct Extent {
  std::uint32_t least;
  std::uint32_t most;

  constexpr bool finite() const { return most < kNonfiniteKey; }
  constexpr bool describes(ValueFormat format, std::uint32_t key) const {
    return format == ValueFormat::sign ? least == most : key == least || key == most;
  }
  constexpr std::uint32_t field(float value) const {
    const std::uint32_t negative = std::bit_cast<std::uint32_t>(value) >> 31;
    return negative | (key_of(value) > least ? 2U : 0U);
  }
};
inline constexpr Extent kNoExtent{0xFFFF'FFFFU, 0};

/// The value of a field, given its scope's magnitudes.
constexpr float value_of(ValueFormat format, std::uint32_t field, const float* magnitudes) {
  const float magnitude = format == ValueFormat::two && (field & 2U) != 0 ? magnitudes[1] : magnitudes[0];
  return (field & 1U) != 0 ? -magnitude : magnitude;
}

}  // namespace laconic::coded
