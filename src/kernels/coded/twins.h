#pragma once

#include "kernels/coded/coded.h"

// The reference, and the twins on a place's stream; contracts as in coded.h. The twins do not wait.

namespace laconic::reference {
/// Returns false if a scope had a NaN or an Inf.
bool code_values(ValueFormat format, const ScopeCuts& cuts, SparseView entries, View<float> errors);
}  // namespace laconic::reference

namespace laconic::cuda {
void code_values(Place& place, ValueFormat format, const ScopeCuts& cuts, ScopeSpan span, SparseView entries,
                 View<float> errors, StatusView status);
void coded_fields(Place& place, ValueFormat format, const ScopeCuts& cuts, ScopeSpan span, ConstSparseView entries,
                  View<float> magnitudes, View<std::uint32_t> fields, StatusView status);
void coded_values(Place& place, ValueFormat format, const ScopeCuts& cuts, ScopeSpan span,
                  View<const std::uint32_t> indices, View<const std::uint32_t> fields, View<const float> magnitudes,
                  View<float> values);
}  // namespace laconic::cuda
