#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/progress.h"
#include "commands.h"
#include "deep.h"
#include "experiment/claims.h"
#include "json_output.h"
#include "laconic/error.h"
#include "text_table.h"
#include "usage.h"

namespace laconic::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Checked {
  const Claim* claim;
  ClaimOutcome outcome;
  double seconds;
};

std::string indented(const std::string& text) {
  std::string result = "    ";
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) result += "    ";
  }
  return result;
}

const char* verdict(const ClaimOutcome& outcome) { return outcome.holds ? "holds" : "does not hold"; }

void show_claim(const Checked& checked) {
  const Claim& claim = *checked.claim;
  std::vector<std::vector<std::string>> rows{checked.outcome.columns};
  rows.insert(rows.end(), checked.outcome.rows.begin(), checked.outcome.rows.end());
  std::vector<bool> right(checked.outcome.columns.size(), true);
  if (!right.empty()) right[0] = false;
  std::cout << fmt::format("{}: {}\n  {}\n  published  {}\n  measured   {}\n  rule       {}\n{}\n", claim.name,
                           verdict(checked.outcome), claim.statement, claim.published, checked.outcome.measured,
                           claim.rule, indented(text_table(rows, right)))
            << std::flush;
}

void show_summary(const std::vector<Checked>& all) {
  std::vector<std::vector<std::string>> rows{{"CLAIM", "VERDICT", "SECONDS", "PAPER"}};
  for (const Checked& checked : all) {
    rows.push_back(
        {checked.claim->name, verdict(checked.outcome), fmt::format("{:.1f}", checked.seconds), checked.claim->paper});
  }
  std::cout << text_table(rows, {false, false, true, false});
}

Json json_of(const Checked& checked, int seeds) {
  Json rows = Json::array();
  for (const auto& row : checked.outcome.rows) rows.push_back(row);
  const Claim& claim = *checked.claim;
  return {{"claim", claim.name},
          {"paper", claim.paper},
          {"statement", claim.statement},
          {"published", claim.published},
          {"measured", checked.outcome.measured},
          {"rule", claim.rule},
          {"holds", checked.outcome.holds},
          {"seeds", seeds > 0 && claim.seeds > 1 ? seeds : claim.seeds},
          {"seconds", checked.seconds},
          {"table", {{"columns", checked.outcome.columns}, {"rows", std::move(rows)}}}};
}

void show_list(const std::vector<const Claim*>& claims, const JsonOutput& json) {
  std::vector<std::vector<std::string>> rows{{"CLAIM", "SEEDS", "WHAT IT SAYS", "PAPER"}};
  Json all = Json::array();
  for (const Claim* claim : claims) {
    rows.push_back({claim->name, std::to_string(claim->seeds), claim->statement, claim->paper});
    all.push_back({{"claim", claim->name},
                   {"paper", claim->paper},
                   {"statement", claim->statement},
                   {"published", claim->published},
                   {"rule", claim->rule},
                   {"seeds", claim->seeds}});
  }
  if (!json.on_stdout()) std::cout << text_table(rows, {false, true, false, false});
  json.write(all.dump(2) + "\n");
}

double seconds_since(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

/// `title` says which claim of how many; on a terminal its line shows what share of the claim's runs is done.
Checked check(const Claim& claim, int seeds, const std::string& title) {
  const bench::Progress progress(true);
  const auto begun = std::chrono::steady_clock::now();
  int shown = -1;
  const auto show = [&](double share) {
    const int percent = static_cast<int>(100.0 * share);
    if (std::exchange(shown, percent) == percent) return;
    progress.say(fmt::format("{}: {} %, {:.0f} s", title, percent, seconds_since(begun)));
  };
  show(0.0);
  ClaimOutcome outcome = check_claim(claim, {.seeds = seeds, .progress = show});
  return {&claim, std::move(outcome), seconds_since(begun)};
}

std::vector<const Claim*> chosen_claims(const ClaimFlags& flags) {
  std::vector<const Claim*> claims;
  for (const std::string& name : without_repeats(flags.names)) claims.push_back(&claim_named(name));
  if (claims.empty()) {
    for (const Claim& claim : claim_table()) claims.push_back(&claim);
  }
  return claims;
}

void reproduce(ClaimFlags& flags, const DeepFlags& deep) {
  if (std::string name = flags.json.give_name_back(); !name.empty()) flags.names.push_back(std::move(name));
  deep.require_used();
  if (deep.deep) return reproduce_deep(deep, flags);
  const auto claims = chosen_claims(flags);
  flags.json.require_writable();
  if (flags.list) return show_list(claims, flags.json);
  std::vector<Checked> all;
  Json json = Json::array();
  std::size_t fallen = 0;
  for (const Claim* claim : claims) {
    all.push_back(check(*claim, flags.seeds, fmt::format("{} ({} of {})", claim->name, all.size() + 1, claims.size())));
    fallen += all.back().outcome.holds ? 0 : 1;
    json.push_back(json_of(all.back(), flags.seeds));
    if (!flags.json.on_stdout()) show_claim(all.back());
  }
  if (!flags.json.on_stdout()) show_summary(all);
  flags.json.write(json.dump(2) + "\n");
  if (fallen > 0) throw Error(fmt::format("{} of {} claims do not hold", fallen, all.size()));
}

}  // namespace

void add_reproduce(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("reproduce", "Repeats the papers' experiments: their figures, ours, and a verdict");
  auto flags = std::make_shared<ClaimFlags>();
  auto deep = std::make_shared<DeepFlags>();
  command->add_option("claims", flags->names, "which claims; none: all");
  flags->json.add_to(*command, "the claims");
  command->add_flag("--list", flags->list, "only list the claims");
  command
      ->add_option(
          "--seeds", flags->seeds,
          "number of runs for the median (with --deep: for the mean); default: the claim's own number (--list), with "
          "--deep 2. A claim without random draws runs once")
      ->check(whole_in(1, 1000))
      ->option_text("NUMBER");
  deep->add_to(*command);
  command->footer(
      "Examples:\n"
      "  laconic reproduce --list\n"
      "  laconic reproduce regtopk-toy sign-ties\n"
      "  laconic reproduce --json > claims.json\n"
      "  laconic reproduce --deep def-divergence --steps 600 --seeds 1 --data ~/data\n"
      "All claims except the deep ones take about 220 s of processor time, divided among the cores.\n"
      "A FILE for --json must have a dot or a slash in its name.\n"
      "The exit code is 0 if every claim holds, 1 if one does not, 2 for a wrong call.");
  command->callback([flags, deep] { reproduce(*flags, *deep); });
}

}  // namespace laconic::tools
