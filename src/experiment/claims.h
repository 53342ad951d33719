#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What the papers say of their methods, each run again on a problem with a known answer: the published figure, ours,
// and the rule that decides. docs/reproduce.md says which rules and settings were changed after a first look.

namespace laconic {

struct ClaimOptions {
  int seeds = 0;  ///< 0: the claim's own number
  /// Is told what share of the claim's runs is done, from any thread but one at a time; empty: nobody is told.
  std::function<void(double)> progress{};
};

struct ClaimOutcome {
  std::string measured;  ///< the figures that the rule decides by, in a line
  bool holds = false;
  /// All that was measured, as a table of texts.
  std::vector<std::string> columns{};
  std::vector<std::vector<std::string>> rows{};
};

struct Claim {
  const char* name;
  const char* paper;
  const char* statement;
  const char* published;  ///< the paper's figure, or that of an independent model where the paper has none
  const char* rule;       ///< holds if this is so
  int seeds;              ///< runs differ by seed: medians are over so many; 1 where nothing is drawn
  ClaimOutcome (*check)(const ClaimOptions& options);
};

/// The one table of claims.
std::span<const Claim> claim_table();

/// InvalidConfig with the nearest name where there is none of this.
const Claim& claim_named(std::string_view name);

/// Runs it with its own number of seeds where none is given. InvalidConfig where that is negative.
ClaimOutcome check_claim(const Claim& claim, ClaimOptions options = {});

}  // namespace laconic
