#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/elementwise/loops.h"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = HWY_CAPPED(float, 16);
using WordTag = hn::RebindToUnsigned<FloatTag>;
using Floats = hn::Vec<FloatTag>;
using Words = hn::Vec<WordTag>;

// Four vectors an iteration keep enough loads in flight to stream.
constexpr std::size_t kUnroll = 4;

/// Remembers the largest magnitude, as bits; exponents of all ones are NaN or Inf.
class NonfiniteWatch {
 public:
  HWY_INLINE NonfiniteWatch() : most_(hn::Zero(WordTag())) {}
  HWY_INLINE void see(Floats value) {
    const WordTag words;
    most_ = hn::Max(most_, hn::And(hn::BitCast(words, value), hn::Set(words, 0x7FFF'FFFFU)));
  }
  HWY_INLINE bool nonfinite() const {
    const WordTag words;
    return !hn::AllFalse(words, hn::Gt(most_, hn::Set(words, 0x7F7F'FFFFU)));
  }

 private:
  Words most_;
};

void AxpyLoop(float alpha, const float* HWY_RESTRICT x, float* HWY_RESTRICT y, std::size_t n) {
  const FloatTag floats;
  const std::size_t lanes = hn::Lanes(floats);
  const auto factor = hn::Set(floats, alpha);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto product = hn::Mul(factor, hn::LoadU(floats, x + i));
    hn::StoreU(hn::Add(hn::LoadU(floats, y + i), product), floats, y + i);
  }
  reference::axpy(alpha, x + i, y + i, n - i);
}

void DivideLoop(float divisor, float* values, std::size_t n) {
  const FloatTag floats;
  const std::size_t lanes = hn::Lanes(floats);
  const auto denominator = hn::Set(floats, divisor);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::Div(hn::LoadU(floats, values + i), denominator), floats, values + i);
  }
  reference::divide(divisor, values + i, n - i);
}

/// Sums kUnroll vectors at entry i over all parts. `term` turns a loaded vector into what is added.
template <class Term, class Finish>
HWY_INLINE std::size_t SumVectors(RankViews parts, float* out, EntryRange range, NonfiniteWatch& watch, const Term& term,
                                  const Finish& finish) {
  const FloatTag floats;
  const std::size_t lanes = hn::Lanes(floats);
  std::size_t i = range.begin;
  for (; i + kUnroll * lanes <= range.end; i += kUnroll * lanes) {
    const float* first = parts[0].data() + i;
    Floats sum0 = term(0, hn::LoadU(floats, first));
    Floats sum1 = term(0, hn::LoadU(floats, first + lanes));
    Floats sum2 = term(0, hn::LoadU(floats, first + 2 * lanes));
    Floats sum3 = term(0, hn::LoadU(floats, first + 3 * lanes));
    for (std::size_t part = 1; part < parts.size(); ++part) {
      const float* next = parts[part].data() + i;
      sum0 = hn::Add(sum0, term(part, hn::LoadU(floats, next)));
      sum1 = hn::Add(sum1, term(part, hn::LoadU(floats, next + lanes)));
      sum2 = hn::Add(sum2, term(part, hn::LoadU(floats, next + 2 * lanes)));
      sum3 = hn::Add(sum3, term(part, hn::LoadU(floats, next + 3 * lanes)));
    }
    sum0 = finish(sum0);
    sum1 = finish(sum1);
    sum2 = finish(sum2);
    sum3 = finish(sum3);
    watch.see(sum0);
    watch.see(sum1);
    watch.see(sum2);
    watch.see(sum3);
    hn::StoreU(sum0, floats, out + i);
    hn::StoreU(sum1, floats, out + i + lanes);
    hn::StoreU(sum2, floats, out + i + 2 * lanes);
    hn::StoreU(sum3, floats, out + i + 3 * lanes);
  }
  return i;
}

bool SumLoop(RankViews parts, float divisor, float* out, EntryRange range) {
  const FloatTag floats;
  const auto denominator = hn::Set(floats, divisor);
  const auto plain = [](std::size_t, Floats value) HWY_ATTR { return value; };
  NonfiniteWatch watch;
  std::size_t done = 0;
  if (divisor == 1.0F) {
    done = SumVectors(parts, out, range, watch, plain, [](Floats sum) HWY_ATTR { return sum; });
  } else {
    done = SumVectors(parts, out, range, watch, plain,
                      [denominator](Floats sum) HWY_ATTR { return hn::Div(sum, denominator); });
  }
  const bool tail = reference::sum_in_rank_order(parts, divisor, out, {done, range.end});
  return watch.nonfinite() || tail;
}

bool WeightedLoop(RankViews parts, std::span<const float> weights, float* out, EntryRange range) {
  NonfiniteWatch watch;
  const std::size_t done = SumVectors(
      parts, out, range, watch,
      [weights](std::size_t part, Floats value) HWY_ATTR { return hn::Mul(hn::Set(FloatTag(), weights[part]), value); },
      [](Floats sum) HWY_ATTR { return sum; });
  const bool tail = reference::weighted_sum(parts, weights, out, {done, range.end});
  return watch.nonfinite() || tail;
}

bool NonfiniteLoop(const float* values, std::size_t n) {
  const FloatTag floats;
  const std::size_t lanes = hn::Lanes(floats);
  NonfiniteWatch watch0;
  NonfiniteWatch watch1;
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    watch0.see(hn::LoadU(floats, values + i));
    watch1.see(hn::LoadU(floats, values + i + lanes));
  }
  const bool tail = reference::find_nonfinite(values + i, n - i);
  return watch0.nonfinite() || watch1.nonfinite() || tail;
}

}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::simd {

void axpy(SimdLevel level, float alpha, const float* x, float* y, std::size_t n) {
  LACONIC_SIMD_CALL(level, AxpyLoop)(alpha, x, y, n);
}
void divide(SimdLevel level, float divisor, float* values, std::size_t n) {
  LACONIC_SIMD_CALL(level, DivideLoop)(divisor, values, n);
}
bool sum_in_rank_order(SimdLevel level, RankViews parts, float divisor, float* out, EntryRange range) {
  return LACONIC_SIMD_CALL(level, SumLoop)(parts, divisor, out, range);
}
bool weighted_sum(SimdLevel level, RankViews parts, std::span<const float> weights, float* out, EntryRange range) {
  return LACONIC_SIMD_CALL(level, WeightedLoop)(parts, weights, out, range);
}
bool find_nonfinite(SimdLevel level, const float* values, std::size_t n) {
  return LACONIC_SIMD_CALL(level, NonfiniteLoop)(values, n);
}

}  // namespace laconic::simd
#endif
