#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/claims.h"
#include "torch/deep/figures.h"

// What the papers say of networks, decided by the runs of torch/deep/runs.h.

namespace laconic::deep {

struct DeepClaim {
  const char* name;
  const char* paper;
  const char* statement;
  const char* published;
  const char* independent;  ///< figures of an independent model of the method, of the same runs
  const char* rule;         ///< holds if this is so, of means over seeds
  std::vector<const char*> runs;
  ClaimOutcome (*check)(const Figures& figures);
  bool needs_flatness = false;
};

/// The one table of deep claims.
std::span<const DeepClaim> claim_table();

/// InvalidConfig with the nearest name where there is none of this.
const DeepClaim& claim_named(std::string_view name);

/// The runs that the claims need, each once, in the order of the table of runs.
std::vector<std::string> runs_of(std::span<const DeepClaim* const> claims);

/// The claim's runs, and what else it needs of them, that the figures do not have.
std::vector<std::string> missing(const DeepClaim& claim, const Figures& figures);

}  // namespace laconic::deep
