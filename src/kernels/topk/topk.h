#pragma once

#include <cstdint>

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

/// Indices are 32 bits: a scope has at most this many entries.
inline constexpr std::uint64_t kMostSparseEntries = 0xFFFF'FFFF;

/// Error feedback and exact top-k in one: a = gradient + residual, where a residual of zero changes no bit; `selected`
/// receives the selected.size() entries of a that are largest by magnitude, by ascending index, equals by lowest index;
/// `rest` receives a with those set to zero.
/// `rest` may be `residual` itself. The result does not depend on threads or level.
///
/// status.threshold > 0 is last step's threshold and starts warm: a few sampled cache lines confirm it, and candidates
/// are found in the pass that adds. Otherwise, or where the sample contradicts it, the start is cold: a larger sample
/// gives the threshold. Either way a count proves that the candidates hold the k largest; where it does not, a further
/// read-only pass follows (status.rescans). Out: status.threshold, the smallest magnitude selected; status.count;
/// status.nonfinite, after which `selected` and `rest` are unspecified though in bounds, and status.threshold is as it
/// was. Moves 12 bytes an entry when the guess holds. No allocation after the first call of a size.
void error_feedback_topk(Place& place, View<const float> gradient, View<const float> residual, View<float> rest,
                         SparseView selected, StatusView status);

/// The `keep` largest by magnitude among `entries`, equals by lowest index, into `kept`, and the others into `left`,
/// both by ascending index. kept.size() <= entries.size(), left.size() = entries.size() - kept.size(). No aliasing.
void split_largest(Place& place, ConstSparseView entries, SparseView kept, SparseView left);

}  // namespace laconic
