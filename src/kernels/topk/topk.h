#pragma once

#include <cstdint>
#include <span>

#include "kernels/scope.h"
#include "laconic/gradient_view.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/view.h"

namespace laconic {

/// Entries of a longer view, by ascending index.
template <class Index, class Value>
struct SparseViews {
  View<Index> indices;
  View<Value> values;
  std::size_t size() const { return indices.size(); }
  SparseViews sub(std::size_t offset, std::size_t count) const {
    return {indices.sub(offset, count), values.sub(offset, count)};
  }
  operator SparseViews<const Index, const Value>() const requires(!std::is_const_v<Index>) { return {indices, values}; }
};
using SparseView = SparseViews<std::uint32_t, float>;
using ConstSparseView = SparseViews<const std::uint32_t, const float>;

/// Indices have 32 bits, so a scope has at most this many entries.
inline constexpr std::uint64_t kMostSparseEntries = 0xFFFF'FFFF;

/// Error feedback and exact top-k in one call. a = gradient + residual, where a residual of zero changes no bit.
/// `selected` receives the selected.size() entries of a with the largest magnitudes, by ascending index; among equal
/// magnitudes the lowest indices are selected. `rest` receives a with the selected entries set to zero. `rest` may be
/// `residual` itself. The result does not depend on threads or level.
///
/// If status.threshold > 0, it is the last step's threshold and the start is warm: a few sampled cache lines confirm
/// it, and candidates are found in the pass that adds. Otherwise, or if the sample contradicts it, the start is cold: a
/// larger sample gives the threshold. Either way a count checks whether the candidates contain the k largest; if they
/// do not, another read-only pass follows (status.rescans). Outputs: status.threshold is the smallest magnitude
/// selected; status.count; status.nonfinite. If status.nonfinite is set, `selected` and `rest` are unspecified, with
/// indices in bounds, and status.threshold is unchanged. Moves 12 bytes per entry if the guess holds, or 10 if
/// the gradient has 16 bits. No allocation after the first call of a size.
///
/// On CUDA the result is the same, but other entries are sampled, and status.rescans counts the selections whose
/// candidates did not suffice, so it may differ. Takes about 0.5 bytes of scratch memory per entry if k is 1 % of them.
void error_feedback_topk(Place& place, ConstGradientView gradient, View<const float> residual, View<float> rest,
                         SparseView selected, StatusView status);

/// One threshold per scope: those of the last step, from which the selection starts as from status.threshold, and those
/// of this one. Both may be the same memory.
struct Thresholds {
  View<const float> last;
  View<float> next;
};

/// The threshold of a selection that has one scope.
inline Thresholds thresholds_in(StatusView status) {
  const View<float> one(&status.data()->threshold, 1, status.device());
  return {one, one};
}

/// error_feedback_topk in each of the scopes, which ascend. `selected` receives the entries of one scope after another,
/// with indices in the whole view. Entries outside the scopes are neither read nor written. A scope with a value that
/// is not finite keeps its last threshold. status.threshold is unspecified. Without scopes nothing happens.
///
/// On CUDA every 64 long scopes, and every 64 short ones, take the launches of one; only a long scope of which
/// everything is selected takes launches of its own. A long scope has scratch memory of its own, so that 64 of them
/// take up to 40 MB more than one scope of as many entries (RegTop-k 54 MB).
void error_feedback_topk_by_scope(Place& place, ConstGradientView gradient, View<const float> residual,
                                  View<float> rest, std::span<const Scope> scopes, const Thresholds& thresholds,
                                  SparseView selected, StatusView status);

/// A view cut at multiples of `each` entries into scopes, from each of which `keep` entries are selected, or `last_keep`
/// from the last one, which may be shorter.
struct FixedScopes {
  std::uint64_t each = 0;
  std::uint64_t keep = 0;
  std::uint64_t last_keep = 0;

  constexpr std::uint64_t count(std::uint64_t n) const { return (n + each - 1) / each; }
  constexpr std::uint64_t selected(std::uint64_t n) const { return n == 0 ? 0 : (count(n) - 1) * keep + last_keep; }
  constexpr std::uint64_t keep_of(std::uint64_t scope, std::uint64_t n) const {
    return scope + 1 < count(n) ? keep : last_keep;
  }
};

/// error_feedback_topk in each of many short scopes, in one pass: `selected` receives the entries of one scope after
/// another, with indices in the whole view. A thread selects from a scope while it is in the cache. No threshold is
/// read or written. If status.nonfinite is set, `selected` and `rest` are unspecified, with indices in bounds. On CUDA it
/// is one launch.
void error_feedback_topk_by_scope(Place& place, ConstGradientView gradient, View<const float> residual,
                                  View<float> rest, const FixedScopes& scopes, SparseView selected, StatusView status);

/// Writes the kept.size() entries with the largest magnitudes to `kept` and the others to `left`, both by ascending
/// index; among equal magnitudes the lowest indices are kept. kept.size() <= entries.size() and left.size() =
/// entries.size() - kept.size(). No aliasing.
void split_largest(Place& place, ConstSparseView entries, SparseView kept, SparseView left);

}  // namespace laconic
