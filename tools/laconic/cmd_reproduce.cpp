#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "experiment/claims.h"
#include "laconic/error.h"
#include "text_table.h"

namespace laconic::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::vector<std::string> names;
  bool json = false;
  bool list = false;
  int seeds = 0;
};

struct Checked {
  const Claim* claim;
  ClaimOutcome outcome;
  double seconds;
};

/// One line on a terminal that is written over; nothing in a pipe.
class Progress {
 public:
  Progress(std::string what, bool wanted) : what_(std::move(what)), wanted_(wanted && isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (wanted_) std::cerr << "\r\033[K" << std::flush;
  }
  void show(double share) {
    const int percent = static_cast<int>(100.0 * share);
    if (!wanted_ || percent == shown_) return;
    shown_ = percent;
    std::cerr << fmt::format("\r\033[K{} {} %", what_, percent) << std::flush;
  }

 private:
  std::string what_;
  bool wanted_;
  int shown_ = -1;
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

void show_list(const std::vector<const Claim*>& claims, bool json) {
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
  std::cout << (json ? all.dump(2) + '\n' : text_table(rows, {false, true, false, false}));
}

Checked check(const Claim& claim, int seeds, bool shows_progress) {
  Progress progress(claim.name, shows_progress);
  const auto begun = std::chrono::steady_clock::now();
  ClaimOutcome outcome =
      check_claim(claim, {.seeds = seeds, .progress = [&progress](double share) { progress.show(share); }});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  return {&claim, std::move(outcome), took.count()};
}

void reproduce(const Flags& flags) {
  std::vector<const Claim*> claims;
  for (const std::string& name : flags.names) claims.push_back(&claim_named(name));
  if (claims.empty()) {
    for (const Claim& claim : claim_table()) claims.push_back(&claim);
  }
  if (flags.list) return show_list(claims, flags.json);
  std::vector<Checked> all;
  Json json = Json::array();
  std::size_t fallen = 0;
  for (const Claim* claim : claims) {
    all.push_back(check(*claim, flags.seeds, true));
    fallen += all.back().outcome.holds ? 0 : 1;
    if (flags.json) {
      json.push_back(json_of(all.back(), flags.seeds));
    } else {
      show_claim(all.back());
    }
  }
  if (flags.json) {
    std::cout << json.dump(2) << std::endl;
  } else {
    show_summary(all);
  }
  if (fallen > 0) throw Error(fmt::format("{} of {} claims do not hold", fallen, all.size()));
}

}  // namespace

void add_reproduce(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("reproduce", "What the papers say, run again: their figures beside ours, and a verdict");
  auto flags = std::make_shared<Flags>();
  command->add_option("claims", flags->names, "which claims; none: all");
  command->add_flag("--json", flags->json, "print a JSON array instead");
  command->add_flag("--list", flags->list, "only say which claims there are");
  command->add_option("--seeds", flags->seeds, "runs that a median is over; 0: the claim's own number")
      ->check(CLI::Range(0, 1000));
  command->footer(
      "The exit code is 0 if every claim holds and 1 if one does not.\n"
      "Examples:\n"
      "  laconic reproduce --list\n"
      "  laconic reproduce regtopk-toy sign-ties\n"
      "  laconic reproduce --json > claims.json");
  command->callback([flags] { reproduce(*flags); });
}

}  // namespace laconic::tools
