#pragma once

#include "kernels/topk/topk.h"

namespace laconic {

/// RegTop-k's score (Bereyhi et al. 2025): which D divides the posterior distortion.
enum class Denominator : std::uint8_t { previous, current };

struct RegtopkScore {
  float mu = 4.0F;      ///< > 0; towards 0 it is plain top-k
  float weight = 1.0F;  ///< this worker's ω
  Denominator denominator = Denominator::previous;
};

/// What RegTop-k remembers of the last step: its support, with a and the aggregate on it. Empty before the first step.
struct LastSupport {
  View<const std::uint32_t> indices;  ///< ascending
  View<const float> corrected;        ///< a of that step at those indices
  View<const float> aggregate;        ///< g of that step at those indices
};

/// As error_feedback_topk, but selects by score: |a|·tanh(|1 + Δ|/μ) on the last support, |a| elsewhere (the printed
/// constant Q makes tanh 1 there to float rounding). Values go unscaled. A support entry whose D is 0 has
/// regularizer 1. Scores never exceed |a|, so the same candidates serve; only the last support is touched besides.
/// status.threshold is the smallest score selected.
void error_feedback_regtopk(Place& place, View<const float> gradient, View<const float> residual, View<float> rest,
                            const LastSupport& last, const RegtopkScore& score, SparseView selected, StatusView status);

/// tanh for x >= 0 by a fixed formula of + - * /, the same bits on every machine; within 1 unit in the last place.
float regularizer_tanh(float x);

}  // namespace laconic
