#pragma once

#include <vector>

#include "claims/claims.h"
#include "json_output.h"

// How `reproduce` shows claims, whatever they are about.

namespace laconic::tools {

/// Which claims there are: a table, and JSON where it is wanted.
void show_list(const std::vector<const Claim*>& claims, const JsonOutput& json);

/// One claim as a paragraph on stdout: published and measured figures, the rule, and the table of what was measured.
/// Nothing if stdout belongs to the JSON.
void show_claim(const CheckedClaim& checked, const JsonOutput& json);

/// The verdicts in one table, and JSON where it is wanted. Then throws Error unless all claims hold.
void show_verdicts(const std::vector<CheckedClaim>& all, const JsonOutput& json);

}  // namespace laconic::tools
