#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "kernels/clones.h"
#include "kernels/elementwise/loops.h"

namespace laconic::portable {
namespace {

/// Magnitudes as integers: an exponent of all ones, NaN or Inf, stands above all others.
constexpr std::int32_t kNonfinite = 0x7F80'0000;
LACONIC_INLINE std::int32_t magnitude_of(float value) { return std::bit_cast<std::int32_t>(value) & 0x7FFF'FFFF; }

LACONIC_INLINE void axpy_loop(float alpha, const float* x, float* y, std::size_t n) {
  LACONIC_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) {
    const float product = alpha * x[i];
    y[i] = y[i] + product;
  }
}

LACONIC_INLINE void divide_loop(float divisor, float* values, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) values[i] = values[i] / divisor;
}

/// Some entries at a time, so that the sums stay in the first cache; `out` may be one of the parts, and is written last.
/// Weights: one per part.
template <bool kWeighted>
LACONIC_INLINE bool sum_loop(RankViews parts, const float* weights, float divisor, float* out, EntryRange range) {
  std::array<float, 512> sums;
  std::int32_t most = 0;
  for (std::size_t begin = range.begin; begin < range.end; begin += sums.size()) {
    const std::size_t count = std::min(sums.size(), range.end - begin);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const float* values = parts[part].data() + begin;
      const float weight = kWeighted ? weights[part] : 1.0F;
      if (part == 0) {
        for (std::size_t i = 0; i < count; ++i) sums[i] = kWeighted ? weight * values[i] : values[i];
      } else {
        for (std::size_t i = 0; i < count; ++i) {
          const float term = kWeighted ? weight * values[i] : values[i];
          sums[i] = sums[i] + term;
        }
      }
    }
    if (divisor != 1.0F) {
      for (std::size_t i = 0; i < count; ++i) sums[i] = sums[i] / divisor;
    }
    for (std::size_t i = 0; i < count; ++i) {
      most = std::max(most, magnitude_of(sums[i]));
      out[begin + i] = sums[i];
    }
  }
  return most >= kNonfinite;
}

LACONIC_INLINE bool nonfinite_loop(const float* values, std::size_t n) {
  std::int32_t most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, magnitude_of(values[i]));
  return most >= kNonfinite;
}

}  // namespace

void axpy(SimdLevel level, float alpha, const float* x, float* y, std::size_t n) {
  Clones<axpy_loop>::run(level, alpha, x, y, n);
}

void divide(SimdLevel level, float divisor, float* values, std::size_t n) {
  Clones<divide_loop>::run(level, divisor, values, n);
}

bool sum_in_rank_order(SimdLevel level, RankViews parts, float divisor, float* out, EntryRange range) {
  return Clones<sum_loop<false>>::run(level, parts, nullptr, divisor, out, range);
}

bool weighted_sum(SimdLevel level, RankViews parts, std::span<const float> weights, float* out, EntryRange range) {
  return Clones<sum_loop<true>>::run(level, parts, weights.data(), 1.0F, out, range);
}

bool find_nonfinite(SimdLevel level, const float* values, std::size_t n) {
  return Clones<nonfinite_loop>::run(level, values, n);
}

}  // namespace laconic::portable
