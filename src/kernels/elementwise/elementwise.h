#pragma once

#include <span>

#include "laconic/gradient_view.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/view.h"

namespace laconic {

void fill(Place& place, float value, View<float> values);
void copy(Place& place, View<const float> from, View<float> to);

/// Sets all entries to +0.
void clear(Place& place, GradientView values);

/// y += alpha·x, product and sum rounded separately.
void axpy(Place& place, float alpha, View<const float> x, View<float> y);

/// values[i] = values[i] / divisor. It is a division, not a product with the inverse, because methods divide once by W.
void divide(Place& place, float divisor, View<float> values);

/// out = (x0 + x1 + ... ) / divisor, in rank order and in one pass; the sum starts with x0. There is at least one view,
/// and all have the same size; out may be one of them. A divisor of 1 leaves the sum as it is. Sets status.nonfinite if
/// the result has NaN or Inf.
void sum_in_rank_order(Place& place, std::span<const View<const float>> parts, float divisor, View<float> out,
                       StatusView status);
/// The same for parts and a result of any one type, which do not overlap. The sum is made in float32 and rounded once.
void sum_in_rank_order(Place& place, std::span<const ConstGradientView> parts, float divisor, GradientView out,
                       StatusView status);

/// out = ω0·x0 + ω1·x1 + ..., each product rounded before it is added. weights.size() == parts.size().
void weighted_sum(Place& place, std::span<const View<const float>> parts, std::span<const float> weights,
                  View<float> out, StatusView status);

/// Sets values[0] = NaN if status.nonfinite is set. An engine's own sum carries no flag, so the values must carry it.
void spoil_if_nonfinite(Place& place, View<float> values, StatusView status);

/// Sets status.nonfinite if a value is NaN or Inf. It changes no value.
void find_nonfinite(Place& place, ConstGradientView values, StatusView status);

/// Whether no value is NaN or Inf. Waits for the place's work.
bool is_finite(Place& place, ConstGradientView values);

}  // namespace laconic
