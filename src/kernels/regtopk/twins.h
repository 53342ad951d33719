#pragma once

#include "kernels/regtopk/regtopk.h"
#include "kernels/topk/twins.h"

// The twins, on a place's stream; contract as in regtopk.h.
namespace laconic::cuda {
void error_feedback_regtopk(Place& place, const topk::Selection& selection, const LastSupport& last,
                            const RegtopkScore& score, StatusView status);
void error_feedback_regtopk_by_scope(Place& place, const topk::Selection& selection, std::span<const Scope> scopes,
                                     const Thresholds& thresholds, const LastSupport& last, const RegtopkScore& score,
                                     StatusView status);
}  // namespace laconic::cuda
