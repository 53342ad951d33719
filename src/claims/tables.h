#pragma once

#include <vector>

#include "claims/claims.h"

// The rows that claim_table() joins.

namespace laconic::claims {

std::vector<Claim> problem_claims();
std::vector<Claim> network_claims();

}  // namespace laconic::claims
