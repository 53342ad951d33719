#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// What the papers say of their methods, each run again: the published figure, ours, and the rule that decides. A claim
// is about a problem with a known answer, or about a network. docs/reproduce.md says which rules and settings were
// changed after a first look.

namespace laconic {

namespace claims {
class Figures;
}

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

/// Runs a problem in memory and decides.
struct ProblemCheck {
  int seeds;  ///< runs differ by seed: medians are over so many; 1 where nothing is drawn
  ClaimOutcome (*check)(const ClaimOptions& options);
};

/// Decides by the figures of runs of networks, which are made before and kept on disk (claims/networks/runs.h).
struct NetworkCheck {
  std::vector<const char*> runs;
  ClaimOutcome (*check)(const claims::Figures& figures);
  bool needs_flatness = false;
};

struct Claim {
  const char* name;
  const char* paper;
  const char* statement;
  const char* published;  ///< the paper's figure, or that of an independent model where the paper has none
  const char* rule;       ///< holds if this is so: of medians over seeds on problems, of means on networks
  std::variant<ProblemCheck, NetworkCheck> check;
  const char* independent = "";  ///< on networks: figures of an independent model of the method, of the same runs
};

enum class Subject { problems, networks };

/// The one table of claims: those on problems, then those on networks.
std::span<const Claim> claim_table();
std::span<const Claim> claims_on(Subject subject);

/// InvalidConfig for a name that the subject does not have, with the nearest one or with where it belongs.
const Claim& claim_named(std::string_view name, Subject subject);

/// A claim and what came of it.
struct CheckedClaim {
  const Claim* claim;
  std::optional<ClaimOutcome> outcome{};  ///< nothing where runs are missing
  std::vector<std::string> missing{};
  std::size_t seeds = 0;  ///< of its runs; on networks the fewest of a run
  double seconds = 0.0;   ///< of its runs
};

/// Runs a claim on problems, with its own number of seeds if none is given. Throws InvalidConfig if that is negative.
CheckedClaim check_claim(const Claim& claim, ClaimOptions options = {});

/// Decides a claim on networks by the figures of its runs. It is not decided if runs are missing.
CheckedClaim judge_claim(const Claim& claim, const claims::Figures& figures);

/// "holds", "does not hold" or "not decided".
const char* verdict(const CheckedClaim& checked);

/// The figures that decided it, or what is missing.
std::string measured(const CheckedClaim& checked);

}  // namespace laconic
