#include <cmath>

#include "kernels/clones.h"
#include "kernels/regtopk/regularizer.h"

namespace laconic::portable {
namespace {

/// The reference's tanh for 0 <= x <= 10.
LACONIC_INLINE double tanh_of(double x) {
  const double y = x * kTanhShrink;
  const double square = y * y;
  double p = y * (1.0 + square * (kTanhP1 + square * kTanhP2));
  double q = 1.0 + square * (kTanhQ1 + square * kTanhQ2);
#pragma GCC unroll 5
  for (int doubling = 0; doubling < kTanhDoublings; ++doubling) {
    const double product = p * q;
    q = p * p + q * q;
    p = product + product;
  }
  return p / q;
}

/// The reference without branches. A divisor of 0 makes an argument that is infinite or no number, and from kTanhIsOne on
/// the formula gives 1 to float rounding: so all that the reference gives the regularizer 1 ends there.
LACONIC_INLINE void score_loop(const ScoreLoop& loop) {
  const double weight = loop.score.weight;
  const double mu = loop.score.mu;
  const auto [score, values, corrected, aggregate, scores, count] = loop;
  const float* divisors = score.denominator == Denominator::previous ? corrected : values;
  LACONIC_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const double distortion = (aggregate[i] - weight * corrected[i]) / (weight * divisors[i]);
    const auto argument = static_cast<float>(std::abs(1.0 + distortion) / mu);
    const float bounded = argument < kTanhIsOne ? argument : kTanhIsOne;
    scores[i] = std::abs(values[i]) * static_cast<float>(tanh_of(bounded));
  }
}

}  // namespace

void score(SimdLevel level, const ScoreLoop& loop) { Clones<score_loop>::run(level, loop); }

}  // namespace laconic::portable
