#pragma once

#include "kernels/topk/selection.h"

// The twins, on a place's stream; contracts as in topk.h. Nothing is rescored here: `selection.rescored` is not read.
namespace laconic::cuda {
void error_feedback_topk(Place& place, const topk::Selection& selection, StatusView status);
void error_feedback_topk_by_scope(Place& place, const topk::Selection& selection, std::span<const Scope> scopes,
                                  const Thresholds& thresholds, StatusView status);
void error_feedback_topk_by_scope(Place& place, const topk::Selection& selection, const FixedScopes& scopes,
                                  StatusView status);
void split_largest(Place& place, ConstSparseView entries, SparseView kept, SparseView left);
}  // namespace laconic::cuda
