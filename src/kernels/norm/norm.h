#pragma once

#include <span>

#include "base/each.h"
#include "laconic/gradient_view.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/view.h"

namespace laconic {

enum class Norm : std::uint8_t { l2, max };

// Sums run in a fixed tree. A block of 8,192 entries has sixteen float64 sums; entry i is added to sum i mod 16, and
// the sums are folded in halves (8, 4, 2, 1). The blocks' results are added in order in float64. So the result does not
// depend on lanes or threads.
inline constexpr std::size_t kNormBlock = 8'192;

/// `result` is one float in the place's memory. l2: square root of the float64 sum of squares, rounded once.
/// Sets status.nonfinite on NaN or Inf, and if the norm itself overflows float32. Empty views have norm 0.
void norm(Place& place, ConstGradientView values, Norm kind, View<float> result, StatusView status);

/// The norms of several views of one type, on a device in one pass over all. status.norm is the last one's.
struct NormPart {
  ConstGradientView values;
  View<float> result;
};
void norms(Place& place, Each<NormPart> parts, Norm kind, StatusView status);

/// The norms of the view's fixed scopes: norms[i] is that of the entries from i·scope on, `scope` of them or what is
/// left. One pass on every device. `scope` is as require_fixed_scope has it. status.norm is left alone.
void scope_norms(Place& place, ConstGradientView values, std::uint64_t scope, Norm kind, View<float> norms,
                 StatusView status);

/// The float64 sum of squares in the same tree, for callers that combine the norms of several parts.
void sum_of_squares(Place& place, ConstGradientView values, View<double> result, StatusView status);

/// The sums of squares of consecutive parts of a view, in CPU memory: sums[i] belongs to the sizes[i] entries behind the
/// parts before it. Waits once for the place's work.
void read_sums_of_squares(Place& place, ConstGradientView values, std::span<const std::uint64_t> sizes,
                          std::span<double> sums, StatusView status);
double read_sum_of_squares(Place& place, ConstGradientView values, StatusView status);

/// ‖x − y‖² in float64, one entry after another.
double squared_distance(Place& place, View<const float> x, View<const float> y);

/// Σ|v|/n, rounded once. The entries of each block of 8,192 are added one after another in float64, then the blocks'
/// results. 0 for an empty view.
float mean_magnitude(Place& place, View<const float> values);

}  // namespace laconic
