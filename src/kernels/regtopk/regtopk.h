#pragma once

#include "kernels/topk/topk.h"

namespace laconic {

/// The D that divides the posterior distortion in RegTop-k's score (Bereyhi et al. 2025).
enum class Denominator : std::uint8_t { previous, current };

struct RegtopkScore {
  float mu = 4.0F;      ///< > 0; as it approaches 0, the score becomes that of plain top-k
  float weight = 1.0F;  ///< this worker's ω
  Denominator denominator = Denominator::previous;
};

/// What RegTop-k stores of the last step: its support, with a and the aggregate there. Empty before the first step.
struct LastSupport {
  View<const std::uint32_t> indices;  ///< ascending, each once
  View<const float> corrected;        ///< a of that step at those indices
  View<const float> aggregate;        ///< g of that step at those indices

  LastSupport of(const Scope& scope) const {
    if (indices.empty()) return {};
    return {indices.sub(scope.first, scope.count), corrected.sub(scope.first, scope.count),
            aggregate.sub(scope.first, scope.count)};
  }
};

/// Like error_feedback_topk, but selects by score: |a|·tanh(|1 + Δ|/μ) on the last support and |a| elsewhere (the
/// paper's constant Q makes tanh 1 there, to float rounding). Selected values are not scaled. A support entry whose D
/// is 0 has regularizer 1. Scores never exceed |a|, so the same candidates suffice; the only additional work is on the
/// last support. status.threshold is the smallest score selected.
void error_feedback_regtopk(Place& place, ConstGradientView gradient, View<const float> residual, View<float> rest,
                            const LastSupport& last, const RegtopkScore& score, SparseView selected, StatusView status);

/// The same in each of many scopes; contract of error_feedback_topk_by_scope. `last` has the supports of one scope after
/// another, with indices that count from the start of their scope, or nothing.
void error_feedback_regtopk_by_scope(Place& place, ConstGradientView gradient, View<const float> residual,
                                     View<float> rest, std::span<const Scope> scopes, const Thresholds& thresholds,
                                     const LastSupport& last, const RegtopkScore& score, SparseView selected,
                                     StatusView status);

}  // namespace laconic
