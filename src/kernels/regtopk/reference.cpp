#include <cmath>

#include "kernels/regtopk/regularizer.h"

namespace laconic {

float regularizer_tanh(float x) {
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

namespace reference {
namespace {

/// In double, so that no intermediate overflows or vanishes. 1 where D is 0, or where what was remembered is no number.
float regularizer(const RegtopkScore& score, double value, double corrected, double aggregate) {
  const double weight = score.weight;
  const double divisor = score.denominator == Denominator::previous ? corrected : value;
  if (divisor == 0.0) return 1.0F;
  const double distortion = (aggregate - weight * corrected) / (weight * divisor);
  return regularizer_tanh(static_cast<float>(std::abs(1.0 + distortion) / score.mu));
}

}  // namespace

void score(const ScoreLoop& loop) {
  for (std::size_t i = 0; i < loop.count; ++i) {
    const float value = loop.values[i];
    loop.scores[i] = std::abs(value) * regularizer(loop.score, value, loop.corrected[i], loop.aggregate[i]);
  }
}

}  // namespace reference
}  // namespace laconic
