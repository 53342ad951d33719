#include "kernels/regtopk/regtopk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/check.h"
#include "kernels/cuda.h"
#include "kernels/regtopk/regularizer.h"
#include "kernels/regtopk/twins.h"
#include "kernels/simd.h"

namespace laconic {
namespace {

void require_positive(std::string_view name, float value) {
  if (value > 0.0F && std::isfinite(value)) return;
  throw InvalidConfig("regtopk's " + std::string(name) + " must be finite and above 0, got " + std::to_string(value) +
                      ": the method's defaults are mu 4 and weight 1/workers");
}

/// Gathers what the loops need and runs them, some entries at a time.
void score_support(SimdLevel level, const LastSupport& last, const RegtopkScore& score,
                   const topk::ScoreRequest& request) {
  constexpr std::size_t kAtOnce = 256;
  std::array<float, kAtOnce> corrected;
  std::array<float, kAtOnce> aggregate;
  for (std::size_t begin = 0; begin < request.count; begin += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, request.count - begin);
    for (std::size_t i = 0; i < count; ++i) {
      corrected[i] = last.corrected[request.positions[begin + i]];
      aggregate[i] = last.aggregate[request.positions[begin + i]];
    }
    const ScoreLoop loop{score, request.values + begin, corrected.data(), aggregate.data(), request.scores + begin,
                         count};
    LACONIC_DISPATCH(level, score, loop);
  }
}

void require_support(Place& place, const LastSupport& last, const RegtopkScore& score) {
  require_positive("mu", score.mu);
  require_positive("weight", score.weight);
  require_size("last.corrected", last.corrected.size(), last.indices.size());
  require_size("last.aggregate", last.aggregate.size(), last.indices.size());
  require_same_device("last.indices", last.indices.device(), place.device());
  require_same_device("last.corrected", last.corrected.device(), place.device());
  require_same_device("last.aggregate", last.aggregate.device(), place.device());
}

/// On the CPU. The first step has no support.
void select_rescored(Place& place, topk::Selection selection, const LastSupport& last, const RegtopkScore& score,
                     StatusView status) {
  const auto score_of = [&](const topk::ScoreRequest& request) { score_support(place.simd(), last, score, request); };
  const topk::Rescored rescored{last.indices, score_of};
  if (!last.indices.empty()) selection.rescored = &rescored;
  topk::select(place, selection, status);
}

}  // namespace

void error_feedback_regtopk(Place& place, ConstGradientView gradient, View<const float> residual, View<float> rest,
                            const LastSupport& last, const RegtopkScore& score, SparseView selected,
                            StatusView status) {
  const topk::Selection selection{gradient, residual, rest, nullptr, selected};
  require_support(place, last, score);
  topk::require_selection(place, selection, status);
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(error_feedback_regtopk, place, selection, last, score, status);
  }
  select_rescored(place, selection, last, score, status);
}

void error_feedback_regtopk_by_scope(Place& place, ConstGradientView gradient, View<const float> residual,
                                     View<float> rest, std::span<const Scope> scopes, const Thresholds& thresholds,
                                     const LastSupport& last, const RegtopkScore& score, SparseView selected,
                                     StatusView status) {
  const topk::Selection selection{gradient, residual, rest, nullptr, selected};
  require_support(place, last, score);
  if (!last.indices.empty()) require_size("last.indices", last.indices.size(), selected.size());
  topk::require_selection(place, selection, status);
  topk::require_scopes(place, selection, scopes, thresholds);
  if (scopes.empty()) return;
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(error_feedback_regtopk_by_scope, place, selection, scopes, thresholds, last, score, status);
  }
  topk::select_by_scope(place, selection, scopes, thresholds, status,
                        [&](const Scope& scope, const topk::Selection& own) {
                          select_rescored(place, own, last.of(scope), score, status);
                        });
}

}  // namespace laconic
