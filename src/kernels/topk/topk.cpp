#include "kernels/topk/topk.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/touch.h"
#include "kernels/cuda.h"
#include "kernels/topk/twins.h"

namespace laconic {
namespace {

void require_keep(std::string_view name, std::size_t keep, std::size_t size) {
  if (keep <= size) return;
  throw InvalidConfig(std::string(name) + " has " + std::to_string(keep) + " entries, expected 0.." +
                      std::to_string(size) + ": keep no more entries than there are");
}

void require_pair(Place& place, std::string_view name, const ConstSparseView& entries) {
  require_size(std::string(name) + ".values", entries.values.size(), entries.indices.size());
  require_same_device(name, entries.indices.device(), place.device());
  require_same_device(name, entries.values.device(), place.device());
}

}  // namespace

namespace topk {

void require_selection(Place& place, const Selection& selection, StatusView status) {
  const std::size_t n = selection.gradient.size();
  require_size("residual", selection.residual.size(), n);
  require_size("rest", selection.rest.size(), n);
  require_size("status", status.size(), 1);
  if (n > kMostSparseEntries) {
    throw InvalidConfig("gradient has " + std::to_string(n) + " entries, expected at most " +
                        std::to_string(kMostSparseEntries) + ": split it, because indices have 32 bits");
  }
  require_keep("selected", selection.selected.size(), n);
  require_pair(place, "selected", selection.selected);
  require_same_device("gradient", selection.gradient.device(), place.device());
  require_same_device("residual", selection.residual.device(), place.device());
  require_same_device("rest", selection.rest.device(), place.device());
  require_same_device("status", status.device(), place.device());
}

void require_scopes(Place& place, const Selection& selection, std::span<const Scope> scopes,
                    const Thresholds& thresholds) {
  require_size("thresholds.last", thresholds.last.size(), scopes.size());
  require_size("thresholds.next", thresholds.next.size(), scopes.size());
  require_same_device("thresholds.last", thresholds.last.device(), place.device());
  require_same_device("thresholds.next", thresholds.next.device(), place.device());
  for (const Scope& scope : scopes) require_keep("a scope's selection", scope.count, scope.size);
  require_size("selected", selection.selected.size(), require_in_order(scopes, selection.gradient.size()));
}

void select_by_scope(Place& place, const Selection& selection, std::span<const Scope> scopes,
                     const Thresholds& thresholds, StatusView status,
                     FunctionRef<void(const Scope&, const Selection&)> select_one) {
  const Touch touch(place);
  for (std::size_t i = 0; i < scopes.size(); ++i) {
    const Selection own = selection.of(scopes[i]);
    status[0].threshold = thresholds.last[i];
    select_one(scopes[i], own);
    thresholds.next[i] = status[0].threshold;
    for (std::uint32_t& index : own.selected.indices) index += static_cast<std::uint32_t>(scopes[i].offset);
  }
  status[0].count = selection.selected.size();
}

void select(Place& place, const Selection& selection, StatusView status) {
  const Touch touch(place);
  const bool plain = place.simd() == SimdLevel::reference;
  plain ? reference::select_largest(place, selection, status[0]) : search_largest(place, selection, status[0]);
}

void give_up_nonfinite(const Selection& selection, Status& status) {
  status.nonfinite = 1;
  status.count = selection.selected.size();
  for (std::size_t i = 0; i < selection.selected.size(); ++i) {
    selection.selected.indices[i] = static_cast<std::uint32_t>(i);
    selection.selected.values[i] = 0.0F;
  }
}

}  // namespace topk

void error_feedback_topk(Place& place, ConstGradientView gradient, View<const float> residual, View<float> rest,
                         SparseView selected, StatusView status) {
  const topk::Selection selection{gradient, residual, rest, nullptr, selected};
  topk::require_selection(place, selection, status);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(error_feedback_topk, place, selection, status);
  topk::select(place, selection, status);
}

void error_feedback_topk_by_scope(Place& place, ConstGradientView gradient, View<const float> residual,
                                  View<float> rest, std::span<const Scope> scopes, const Thresholds& thresholds,
                                  SparseView selected, StatusView status) {
  const topk::Selection selection{gradient, residual, rest, nullptr, selected};
  topk::require_selection(place, selection, status);
  topk::require_scopes(place, selection, scopes, thresholds);
  if (scopes.empty()) return;
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(error_feedback_topk_by_scope, place, selection, scopes, thresholds, status);
  }
  topk::select_by_scope(place, selection, scopes, thresholds, status,
                        [&](const Scope&, const topk::Selection& own) { topk::select(place, own, status); });
}

void error_feedback_topk_by_scope(Place& place, ConstGradientView gradient, View<const float> residual,
                                  View<float> rest, const FixedScopes& scopes, SparseView selected,
                                  StatusView status) {
  const topk::Selection selection{gradient, residual, rest, nullptr, selected};
  topk::require_selection(place, selection, status);
  if (scopes.each == 0 || scopes.each > topk::kMostFixed) {
    throw InvalidConfig("a fixed scope must have 1.." + std::to_string(topk::kMostFixed) + " entries, got " +
                        std::to_string(scopes.each) + ": select with error_feedback_topk in longer ones");
  }
  const std::uint64_t n = gradient.size();
  const std::uint64_t last = n == 0 ? 0 : n - (scopes.count(n) - 1) * scopes.each;
  require_keep("a scope's selection", scopes.keep, scopes.each);
  require_keep("the last scope's selection", n == 0 ? 0 : scopes.last_keep, last);
  require_size("selected", selected.size(), scopes.selected(n));
  if (n == 0) return;
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(error_feedback_topk_by_scope, place, selection, scopes, status);
  }
  const Touch touch(place);
  status[0].count = selected.size();
  const bool plain = place.simd() == SimdLevel::reference;
  plain ? reference::select_in_scopes(place, selection, scopes, status[0])
        : topk::search_scopes(place, selection, scopes, status[0]);
}

void split_largest(Place& place, ConstSparseView entries, SparseView kept, SparseView left) {
  require_keep("kept", kept.size(), entries.size());
  require_size("left", left.size(), entries.size() - kept.size());
  require_pair(place, "entries", entries);
  require_pair(place, "kept", kept);
  require_pair(place, "left", left);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(split_largest, place, entries, kept, left);
  const Touch touch(place);
  const bool plain = place.simd() == SimdLevel::reference;
  plain ? reference::split_largest(place, entries, kept, left) : topk::split_candidates(place, entries, kept, left);
}

}  // namespace laconic
