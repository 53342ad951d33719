#pragma once

#include "kernels/coded/scope_cuts.h"
#include "kernels/convert/convert.h"
#include "kernels/topk/topk.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/view.h"

namespace laconic {

// Values as signs and magnitudes that the entries of a scope share: the formats `sign` and `two`. Entries are lists with
// ascending indices; `span` names the scopes in which they lie.

/// Bits that an entry has on the wire, and magnitudes that a scope has.
constexpr int field_bits(ValueFormat format) { return format == ValueFormat::sign ? 1 : 2; }
constexpr std::uint64_t magnitudes_of(ValueFormat format) { return format == ValueFormat::sign ? 1 : 2; }

/// Replaces `values` by what a receiver will see. m is the mean of |p| over the entries of a scope.
///   sign: c = m, with the sign of p. Zero and -0 count as plus.
///   two:  c = the mean of |p| over the entries with |p| > m if p is one of them, otherwise the mean over the others,
///         with the sign of p. A group without entries has no value.
/// errors[i] = p - c in float32. Means are exact sums of |p| in fixed point, at least 31 bits below the scope's largest
/// magnitude and 40 if it has fewer than 2^23 entries, divided once and rounded once; so they do not depend on the order
/// of the sum. A scope with a NaN or an Inf becomes zeros, and status.nonfinite is set. Reads the list twice (sign) or
/// three times (two) and writes it once.
void code_values(Place& place, ValueFormat format, const ScopeCuts& cuts, ScopeSpan span, SparseView entries,
                 View<float> errors, StatusView status);

/// For an encoder: `magnitudes` receives the magnitude of each scope (sign), or the lowest and the highest (two); 0 for
/// scopes without entries. `fields` receives bit 0: negative, bit 1: the higher magnitude, if it is not the lower one
/// too. Values that a scope's magnitudes do not describe throw InvalidConfig; on a device, which it does not wait for,
/// wrong_norm is noted in the status, found being the position of such an entry. A scope with a NaN or an Inf has
/// magnitudes of 0, and status.nonfinite is set.
void coded_fields(Place& place, ValueFormat format, const ScopeCuts& cuts, ScopeSpan span, ConstSparseView entries,
                  View<float> magnitudes, View<std::uint32_t> fields, StatusView status);

/// For a decoder: the values of these fields and magnitudes.
void coded_values(Place& place, ValueFormat format, const ScopeCuts& cuts, ScopeSpan span,
                  View<const std::uint32_t> indices, View<const std::uint32_t> fields, View<const float> magnitudes,
                  View<float> values);

}  // namespace laconic
