#pragma once

// What top-k and RegTop-k share: one selection, whose scores are magnitudes except on a support that is rescored.

#include <bit>
#include <cstdint>
#include <span>

#include "base/function_ref.h"
#include "kernels/topk/topk.h"

namespace laconic::topk {

/// Entries of a support whose scores are requested.
struct ScoreRequest {
  const std::uint32_t* positions;  ///< in the support
  const float* values;             ///< of a, at indices[positions[i]]
  float* scores;                   ///< out
  std::size_t count;
};

/// Entries that are not scored by their magnitude. A score is never above the magnitude.
struct Rescored {
  View<const std::uint32_t> indices;  ///< ascending
  FunctionRef<void(const ScoreRequest&)> score;

  float score_at(std::uint32_t position, float value) const {
    float result = 0.0F;
    score({&position, &value, &result, 1});
    return result;
  }
};

/// Inputs and outputs of a selection. The contract is that of error_feedback_topk, with scores in place of magnitudes.
struct Selection {
  ConstGradientView gradient;
  View<const float> residual;
  View<float> rest;
  const Rescored* rescored;  ///< null: every score is a magnitude
  SparseView selected;

  /// All of it.
  Scope scope() const { return {0, 0, gradient.size(), 0, selected.size()}; }
  /// The part of one scope. Nothing is rescored in it.
  Selection of(const Scope& scope) const {
    return {gradient.sub(scope.offset, scope.size), residual.sub(scope.offset, scope.size),
            rest.sub(scope.offset, scope.size), nullptr, selected.sub(scope.first, scope.count)};
  }
};

/// A magnitude as an integer of the same order. Inf and NaN are above all numbers.
constexpr std::uint32_t key_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFF'FFFFU; }
inline constexpr std::uint32_t kNonfiniteKey = 0x7F80'0000U;

/// The most entries of a fixed scope.
inline constexpr std::uint64_t kMostFixed = 65'536;

/// Throws InvalidConfig unless the sizes agree and all views lie on the place's device.
void require_selection(Place& place, const Selection& selection, StatusView status);

/// Throws InvalidConfig unless the scopes, their thresholds and `selected` fit together too.
void require_scopes(Place& place, const Selection& selection, std::span<const Scope> scopes,
                    const Thresholds& thresholds);

/// Runs the implementation for the place, which is on the CPU.
void select(Place& place, const Selection& selection, StatusView status);

/// Calls select_one(scope, its part of the selection), which selects from status.threshold on, for each scope. Passes
/// thresholds in and out, and lets indices count from the start of the view. On the CPU.
void select_by_scope(Place& place, const Selection& selection, std::span<const Scope> scopes,
                     const Thresholds& thresholds, StatusView status,
                     FunctionRef<void(const Scope&, const Selection&)> select_one);

/// The fast implementation, which candidates.h describes. Not for the level `reference`.
void search_largest(Place& place, const Selection& selection, Status& status);
void split_candidates(Place& place, ConstSparseView entries, SparseView kept, SparseView left);

/// Selects in fixed scopes.
void search_scopes(Place& place, const Selection& selection, const FixedScopes& scopes, Status& status);

/// Ends a call that met a NaN or an Inf: writes valid indices and values of 0, and leaves status.threshold unchanged.
void give_up_nonfinite(const Selection& selection, Status& status);

}  // namespace laconic::topk

namespace laconic::reference {
void select_largest(Place& place, const topk::Selection& selection, Status& status);
void select_in_scopes(Place& place, const topk::Selection& selection, const FixedScopes& scopes, Status& status);
void split_largest(Place& place, ConstSparseView entries, SparseView kept, SparseView left);
}  // namespace laconic::reference
