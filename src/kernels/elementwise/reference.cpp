#include <bit>
#include <cstdint>

#include "kernels/elementwise/loops.h"

namespace laconic::reference {
namespace {

bool is_nonfinite(float value) { return (std::bit_cast<std::uint32_t>(value) & 0x7F80'0000U) == 0x7F80'0000U; }

}  // namespace

void axpy(float alpha, const float* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float product = alpha * x[i];
    y[i] = y[i] + product;
  }
}

void divide(float divisor, float* values, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) values[i] = values[i] / divisor;
}

bool sum_in_rank_order(RankViews parts, float divisor, float* out, EntryRange range) {
  bool nonfinite = false;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    float sum = parts[0][i];
    for (std::size_t part = 1; part < parts.size(); ++part) sum = sum + parts[part][i];
    if (divisor != 1.0F) sum = sum / divisor;
    nonfinite |= is_nonfinite(sum);
    out[i] = sum;
  }
  return nonfinite;
}

bool weighted_sum(RankViews parts, std::span<const float> weights, float* out, EntryRange range) {
  bool nonfinite = false;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    float sum = weights[0] * parts[0][i];
    for (std::size_t part = 1; part < parts.size(); ++part) {
      const float product = weights[part] * parts[part][i];
      sum = sum + product;
    }
    nonfinite |= is_nonfinite(sum);
    out[i] = sum;
  }
  return nonfinite;
}

bool find_nonfinite(const float* values, std::size_t n) {
  bool nonfinite = false;
  for (std::size_t i = 0; i < n; ++i) nonfinite |= is_nonfinite(values[i]);
  return nonfinite;
}

}  // namespace laconic::reference
