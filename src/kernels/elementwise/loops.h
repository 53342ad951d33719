#pragma once

#include <cstddef>
#include <span>

#include "laconic/gradient_view.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/view.h"

// The loops behind kernels/elementwise, on plain ranges. Those that return bool return whether there was a NaN or an
// Inf.

namespace laconic {

using RankViews = std::span<const View<const float>>;

/// Entries [begin, end) of the parts.
struct EntryRange {
  std::size_t begin;
  std::size_t end;
};

namespace reference {
void axpy(float alpha, const float* x, float* y, std::size_t n);
void divide(float divisor, float* values, std::size_t n);
bool sum_in_rank_order(RankViews parts, float divisor, float* out, EntryRange range);
bool weighted_sum(RankViews parts, std::span<const float> weights, float* out, EntryRange range);
bool find_nonfinite(const float* values, std::size_t n);
}  // namespace reference

namespace portable {
void axpy(SimdLevel level, float alpha, const float* x, float* y, std::size_t n);
void divide(SimdLevel level, float divisor, float* values, std::size_t n);
bool sum_in_rank_order(SimdLevel level, RankViews parts, float divisor, float* out, EntryRange range);
bool weighted_sum(SimdLevel level, RankViews parts, std::span<const float> weights, float* out, EntryRange range);
bool find_nonfinite(SimdLevel level, const float* values, std::size_t n);
}  // namespace portable

namespace simd {
void axpy(SimdLevel level, float alpha, const float* x, float* y, std::size_t n);
void divide(SimdLevel level, float divisor, float* values, std::size_t n);
bool sum_in_rank_order(SimdLevel level, RankViews parts, float divisor, float* out, EntryRange range);
bool weighted_sum(SimdLevel level, RankViews parts, std::span<const float> weights, float* out, EntryRange range);
bool find_nonfinite(SimdLevel level, const float* values, std::size_t n);
}  // namespace simd

// The CUDA twins, on a place's stream.
namespace cuda {
void fill(Place& place, float value, View<float> values);
void copy(Place& place, View<const float> from, View<float> to);
void clear(Place& place, GradientView values);
void axpy(Place& place, float alpha, View<const float> x, View<float> y);
void divide(Place& place, float divisor, View<float> values);
void sum_in_rank_order(Place& place, RankViews parts, float divisor, View<float> out, StatusView status);
void sum_in_rank_order(Place& place, std::span<const ConstGradientView> parts, float divisor, GradientView out,
                       StatusView status);
void weighted_sum(Place& place, RankViews parts, std::span<const float> weights, View<float> out, StatusView status);
void spoil_if_nonfinite(Place& place, View<float> values, StatusView status);
void find_nonfinite(Place& place, ConstGradientView values, StatusView status);
}  // namespace cuda

}  // namespace laconic
