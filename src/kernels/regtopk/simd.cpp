#include "kernels/regtopk/regularizer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/regtopk/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = HWY_CAPPED(double, 8);
using Floats = hn::Rebind<float, Doubles>;
using Vector = hn::Vec<Doubles>;

/// The reference's tanh for 0 <= x < 10.
HWY_INLINE Vector Tanh(Vector x) {
  const Doubles d;
  const auto one = hn::Set(d, 1.0);
  const auto y = hn::Mul(x, hn::Set(d, kTanhShrink));
  const auto square = hn::Mul(y, y);
  const auto p_inner = hn::Add(hn::Set(d, kTanhP1), hn::Mul(square, hn::Set(d, kTanhP2)));
  const auto q_inner = hn::Add(hn::Set(d, kTanhQ1), hn::Mul(square, hn::Set(d, kTanhQ2)));
  auto p = hn::Mul(y, hn::Add(one, hn::Mul(square, p_inner)));
  auto q = hn::Add(one, hn::Mul(square, q_inner));
  for (int doubling = 0; doubling < kTanhDoublings; ++doubling) {
    const auto product = hn::Mul(p, q);
    q = hn::Add(hn::Mul(p, p), hn::Mul(q, q));
    p = hn::Add(product, product);
  }
  return hn::Div(p, q);
}

void Score(const ScoreLoop& loop) {
  const Doubles d;
  const Floats df;
  const auto one = hn::Set(d, 1.0);
  const auto weight = hn::Set(d, loop.score.weight);
  const auto mu = hn::Set(d, loop.score.mu);
  const bool previous = loop.score.denominator == Denominator::previous;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= loop.count; i += hn::Lanes(d)) {
    const auto value = hn::LoadU(df, loop.values + i);
    const auto corrected = hn::PromoteTo(d, hn::LoadU(df, loop.corrected + i));
    const auto aggregate = hn::PromoteTo(d, hn::LoadU(df, loop.aggregate + i));
    const auto divisor = previous ? corrected : hn::PromoteTo(d, value);
    const auto distortion = hn::Div(hn::Sub(aggregate, hn::Mul(weight, corrected)), hn::Mul(weight, divisor));
    const auto rounded = hn::DemoteTo(df, hn::Div(hn::Abs(hn::Add(one, distortion)), mu));
    const auto argument = hn::PromoteTo(d, rounded);
    // Not a number is not below 10 either.
    const auto ordinary = hn::And(hn::Lt(argument, hn::Set(d, double{kTanhIsOne})), hn::Ne(divisor, hn::Zero(d)));
    const auto regularizer = hn::IfThenElse(ordinary, Tanh(argument), one);
    hn::StoreU(hn::Mul(hn::Abs(value), hn::DemoteTo(df, regularizer)), df, loop.scores + i);
  }
  reference::score(
      {loop.score, loop.values + i, loop.corrected + i, loop.aggregate + i, loop.scores + i, loop.count - i});
}

}  // namespace
}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::simd {
void score(SimdLevel level, const ScoreLoop& loop) { LACONIC_SIMD_CALL(level, Score)(loop); }
}  // namespace laconic::simd
#endif
