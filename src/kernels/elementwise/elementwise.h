#pragma once

#include <span>

#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/view.h"

namespace laconic {

void fill(Place& place, float value, View<float> values);
void copy(Place& place, View<const float> from, View<float> to);

/// y += alpha·x, product and sum rounded separately.
void axpy(Place& place, float alpha, View<const float> x, View<float> y);

/// values[i] = values[i] / divisor: a division, as "divided once by W" asks for.
void divide(Place& place, float divisor, View<float> values);

/// out = (x0 + x1 + ... ) / divisor in rank order, one pass: the sum starts with x0. The views are of equal size, at
/// least one; out may be one of them. divisor 1 leaves the sum. Sets status.nonfinite if the result has NaN or Inf.
void sum_in_rank_order(Place& place, std::span<const View<const float>> parts, float divisor, View<float> out,
                       StatusView status);

/// out = ω0·x0 + ω1·x1 + ..., each product rounded before it is added. weights.size() == parts.size().
void weighted_sum(Place& place, std::span<const View<const float>> parts, std::span<const float> weights,
                  View<float> out, StatusView status);

/// values[0] = NaN if status.nonfinite is set: an engine's own sum carries no flag, so the values must show it.
void spoil_if_nonfinite(Place& place, View<float> values, StatusView status);

/// Sets status.nonfinite if a value is NaN or Inf; reads only.
void find_nonfinite(Place& place, View<const float> values, StatusView status);

}  // namespace laconic
