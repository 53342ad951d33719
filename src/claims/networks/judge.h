#pragma once

#include <span>
#include <string>
#include <vector>

#include "claims/claims.h"
#include "claims/networks/figures.h"

// Claims about networks, decided by the runs of claims/networks/runs.h.

namespace laconic::claims {

/// The runs that the claims need, each once, in the order of the table of runs.
std::vector<std::string> runs_of(std::span<const Claim* const> claims);

/// The claim's runs, and what else it needs of them, that the figures do not have.
std::vector<std::string> missing(const Claim& claim, const Figures& figures);

}  // namespace laconic::claims
