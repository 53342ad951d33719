#include "claims/claims.h"

#include <algorithm>
#include <chrono>

#include "base/suggestion.h"
#include "claims/tables.h"
#include "laconic/error.h"

namespace laconic {
namespace {

/// Problems first: claims_on() cuts the table in two.
const std::vector<Claim>& rows() {
  static const std::vector<Claim> table = [] {
    std::vector<Claim> all = claims::problem_claims();
    for (Claim& claim : claims::network_claims()) all.push_back(std::move(claim));
    return all;
  }();
  return table;
}

bool is_among(std::string_view name, std::span<const Claim> table) {
  return std::any_of(table.begin(), table.end(), [&](const Claim& claim) { return claim.name == name; });
}

}  // namespace

std::span<const Claim> claim_table() { return rows(); }

std::span<const Claim> claims_on(Subject subject) {
  const std::span<const Claim> all = claim_table();
  const auto first_network = std::find_if(all.begin(), all.end(), [](const Claim& claim) {
    return std::holds_alternative<NetworkCheck>(claim.check);
  });
  const auto count = static_cast<std::size_t>(first_network - all.begin());
  return subject == Subject::problems ? all.first(count) : all.subspan(count);
}

const Claim& claim_named(std::string_view name, Subject subject) {
  if (subject == Subject::problems) {
    if (is_among(name, claims_on(Subject::networks))) {
      throw InvalidConfig(std::string(name) + " is a claim about networks: add --deep");
    }
    return row_named(claims_on(subject), name, "claim", " (`laconic reproduce --list` lists them)");
  }
  if (is_among(name, claims_on(Subject::problems))) {
    throw InvalidConfig(std::string(name) + " is a claim about a problem: leave --deep out");
  }
  return row_named(claims_on(subject), name, "deep claim", " (`laconic reproduce --deep --list` lists them)");
}

CheckedClaim check_claim(const Claim& claim, ClaimOptions options) {
  if (options.seeds < 0) {
    throw InvalidConfig("seeds must be 0 or more, got " + std::to_string(options.seeds) +
                        ": 0 is the claim's own number");
  }
  const auto& check = std::get<ProblemCheck>(claim.check);
  if (options.seeds == 0) options.seeds = check.seeds;
  const auto begun = std::chrono::steady_clock::now();
  CheckedClaim checked{.claim = &claim, .outcome = check.check(options)};
  checked.seeds = static_cast<std::size_t>(check.seeds > 1 ? options.seeds : check.seeds);
  checked.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return checked;
}

const char* verdict(const CheckedClaim& checked) {
  if (!checked.outcome) return "not decided";
  return checked.outcome->holds ? "holds" : "does not hold";
}

std::string measured(const CheckedClaim& checked) {
  if (checked.outcome) return checked.outcome->measured;
  std::string text = "missing:";
  for (const std::string& name : checked.missing) text += " " + name;
  return text;
}

}  // namespace laconic
