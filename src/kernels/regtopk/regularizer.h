#pragma once

#include <bit>
#include <cstddef>

#include "kernels/regtopk/regtopk.h"

namespace laconic {

/// Entries of the last support whose scores are requested, gathered into contiguous arrays.
struct ScoreLoop {
  RegtopkScore score;
  const float* values;     ///< a of this step
  const float* corrected;  ///< a of the last step
  const float* aggregate;  ///< g of the last step
  float* scores;           ///< out: |a|·tanh(|1 + Δ|/μ), Δ = (g − ω·a) / (ω·D)
  std::size_t count;
};

namespace reference {
void score(const ScoreLoop& loop);
}
namespace portable {
void score(SimdLevel level, const ScoreLoop& loop);
}
namespace simd {
void score(SimdLevel level, const ScoreLoop& loop);
}

// tanh(y) = p/q to 2^-41 for y = x/32 < 0.32 (Padé), and tanh(2y) = 2pq / (p² + q²) doubles y five times.
inline constexpr double kTanhShrink = 1.0 / 32.0;
inline constexpr int kTanhDoublings = 5;
inline constexpr double kTanhP1 = 1.0 / 9.0;
inline constexpr double kTanhP2 = 1.0 / 945.0;
inline constexpr double kTanhQ1 = 4.0 / 9.0;
inline constexpr double kTanhQ2 = 1.0 / 63.0;
inline constexpr float kTanhIsOne = 10.0F;  ///< from 9.02 on, tanh rounds to 1 in float

/// tanh for x >= 0 by a fixed formula of + - * /, which gives the same bits on every machine, within 1 unit in the last
/// place.
constexpr float regularizer_tanh(float x) {
  if (!(x < kTanhIsOne)) return 1.0F;
  const double y = x * kTanhShrink;
  const double square = y * y;
  double p = y * (1.0 + square * (kTanhP1 + square * kTanhP2));
  double q = 1.0 + square * (kTanhQ1 + square * kTanhQ2);
  for (int doubling = 0; doubling < kTanhDoublings; ++doubling) {
    const double product = p * q;
    q = p * p + q * q;
    p = product + product;
  }
  return static_cast<float>(p / q);
}

// std::abs is not constexpr, and the device's compiler calls constexpr functions only.
constexpr float magnitude_of(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7FFF'FFFFU);
}
constexpr double magnitude_of(double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0x7FFF'FFFF'FFFF'FFFFU);
}

/// In double, so that no intermediate overflows or vanishes. 1 where D is 0, or where what was remembered is no number.
constexpr float regularizer(const RegtopkScore& score, double value, double corrected, double aggregate) {
  const double weight = score.weight;
  const double divisor = score.denominator == Denominator::previous ? corrected : value;
  if (divisor == 0.0) return 1.0F;
  const double distortion = (aggregate - weight * corrected) / (weight * divisor);
  return regularizer_tanh(static_cast<float>(magnitude_of(1.0 + distortion) / score.mu));
}

/// What the reference, and the twin on a device, give each entry of the support.
constexpr float regularized_score(const RegtopkScore& score, float value, float corrected, float aggregate) {
  return magnitude_of(value) * regularizer(score, value, corrected, aggregate);
}

}  // namespace laconic
