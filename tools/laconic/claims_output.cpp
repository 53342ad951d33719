#include "claims_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "laconic/error.h"
#include "text_table.h"

namespace laconic::tools {
namespace {

using Json = nlohmann::ordered_json;

bool is_on_networks(const Claim& claim) { return std::holds_alternative<NetworkCheck>(claim.check); }

/// What is known of a claim before it is checked.
Json json_of(const Claim& claim) {
  Json json{
      {"claim", claim.name}, {"paper", claim.paper}, {"statement", claim.statement}, {"published", claim.published}};
  if (*claim.independent != '\0') json["independent"] = claim.independent;
  return json;
}

Json json_of(const CheckedClaim& checked) {
  Json json = json_of(*checked.claim);
  json["measured"] = measured(checked);
  json["rule"] = checked.claim->rule;
  json["holds"] = checked.outcome ? Json(checked.outcome->holds) : Json();
  json["seeds"] = checked.seeds;
  json["seconds"] = checked.seconds;
  if (checked.outcome) json["table"] = {{"columns", checked.outcome->columns}, {"rows", checked.outcome->rows}};
  return json;
}

std::string table_of(const ClaimOutcome& outcome) {
  std::vector<std::vector<std::string>> rows{outcome.columns};
  rows.insert(rows.end(), outcome.rows.begin(), outcome.rows.end());
  std::vector<bool> right(outcome.columns.size(), true);
  if (!right.empty()) right[0] = false;
  std::stringstream lines(text_table(rows, right));
  std::string indented;
  for (std::string line; std::getline(lines, line);) indented += "    " + line + "\n";
  return indented;
}

}  // namespace

void show_list(const std::vector<const Claim*>& claims, const JsonOutput& json) {
  const bool networks = !claims.empty() && is_on_networks(*claims.front());
  std::vector<std::vector<std::string>> rows{{"CLAIM", networks ? "RUNS" : "SEEDS", "WHAT IT SAYS", "PAPER"}};
  Json all = Json::array();
  for (const Claim* claim : claims) {
    Json entry = json_of(*claim);
    entry["rule"] = claim->rule;
    std::size_t count = 0;
    if (const auto* check = std::get_if<NetworkCheck>(&claim->check)) {
      count = check->runs.size();
      entry["runs"] = check->runs;
    } else {
      count = static_cast<std::size_t>(std::get<ProblemCheck>(claim->check).seeds);
      entry["seeds"] = count;
    }
    rows.push_back({claim->name, std::to_string(count), claim->statement, claim->paper});
    all.push_back(std::move(entry));
  }
  if (!json.on_stdout()) std::cout << text_table(rows, {false, true, false, false});
  json.write(all.dump(2) + "\n");
}

void show_claim(const CheckedClaim& checked, const JsonOutput& json) {
  if (json.on_stdout()) return;
  const Claim& claim = *checked.claim;
  const auto line = [](const char* what, const std::string& text) {
    return text.empty() ? "" : fmt::format("  {:<11}  {}\n", what, text);
  };
  std::cout << fmt::format("{}: {}\n  {}\n", claim.name, verdict(checked), claim.statement)
            << line("published", claim.published) << line("independent", claim.independent)
            << line("measured", measured(checked)) << line("rule", claim.rule)
            << (checked.outcome ? table_of(*checked.outcome) : "") << '\n'
            << std::flush;
}

void show_verdicts(const std::vector<CheckedClaim>& all, const JsonOutput& json) {
  std::vector<std::vector<std::string>> rows{{"CLAIM", "VERDICT", "SECONDS", "PAPER"}};
  Json entries = Json::array();
  for (const CheckedClaim& checked : all) {
    rows.push_back(
        {checked.claim->name, verdict(checked), fmt::format("{:.1f}", checked.seconds), checked.claim->paper});
    entries.push_back(json_of(checked));
  }
  if (!json.on_stdout()) std::cout << text_table(rows, {false, false, true, false});
  json.write(entries.dump(2) + "\n");
  const auto open = std::count_if(all.begin(), all.end(), [](const CheckedClaim& each) { return !each.outcome; });
  const auto fallen = std::count_if(all.begin(), all.end(),
                                    [](const CheckedClaim& each) { return each.outcome && !each.outcome->holds; });
  if (fallen == 0 && open == 0) return;
  const std::string undecided = open > 0 ? fmt::format(", {} are not decided: their runs are missing", open) : "";
  throw Error(fmt::format("{} of {} claims do not hold{}", fallen, all.size(), undecided));
}

}  // namespace laconic::tools
