#include "claims/networks/judge.h"

#include <algorithm>
#include <cmath>

namespace laconic::claims {
namespace {

const NetworkCheck& check_of(const Claim& claim) { return std::get<NetworkCheck>(claim.check); }

bool needs(const Claim& claim, std::string_view run) {
  const auto& runs = check_of(claim).runs;
  return std::any_of(runs.begin(), runs.end(), [&](std::string_view name) { return name == run; });
}

}  // namespace

std::vector<std::string> runs_of(std::span<const Claim* const> claims) {
  std::vector<std::string> names;
  for (const NetworkRun& run : run_table()) {
    const bool needed =
        std::any_of(claims.begin(), claims.end(), [&](const Claim* claim) { return needs(*claim, run.name); });
    if (needed) names.emplace_back(run.name);
  }
  return names;
}

std::vector<std::string> missing(const Claim& claim, const Figures& figures) {
  std::vector<std::string> names;
  for (const char* name : check_of(claim).runs) {
    if (figures.of(name).empty()) {
      names.emplace_back(name);
    } else if (check_of(claim).needs_flatness && std::isnan(figures.trace(name))) {
      names.push_back(std::string(name) + "'s flatness");
    }
  }
  return names;
}

}  // namespace laconic::claims

namespace laconic {

CheckedClaim judge_claim(const Claim& claim, const claims::Figures& figures) {
  CheckedClaim checked{.claim = &claim, .missing = claims::missing(claim, figures)};
  const auto& check = std::get<NetworkCheck>(claim.check);
  if (checked.missing.empty()) checked.outcome = check.check(figures);
  for (const char* name : check.runs) {
    const auto results = figures.of(name);
    for (const claims::NetworkResult* result : results) checked.seconds += result->wall_seconds;
    checked.seeds = name == check.runs.front() ? results.size() : std::min(checked.seeds, results.size());
  }
  return checked;
}

}  // namespace laconic
