#pragma once

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

}  // namespace laconic
