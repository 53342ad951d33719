#include "claims/networks/markdown.h"

#include <cmath>
#include <set>

#include "claims/networks/judge.h"
#include "claims/tools.h"
#include "laconic/error.h"

namespace laconic::claims {
namespace {

std::string cell(double value, int decimals) { return std::isnan(value) ? "" : fixed(value, decimals); }

std::string row(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& each : cells) text += " " + each + " |";
  return text + "\n";
}

std::string seeds_of(const std::vector<const NetworkResult*>& results) {
  std::string text;
  for (const NetworkResult* result : results) {
    const bool language = std::isnan(result->accuracy);
    append(text, ", ", language ? fixed(result->loss, 3) : fixed(result->accuracy, 1));
  }
  return text;
}

std::string run_row(const NetworkRun& run, const Figures& figures) {
  const auto results = figures.of(run.name);
  double bytes = 0.0;
  const auto seeds = static_cast<double>(results.size());
  for (const NetworkResult* result : results) bytes += result->sent_bytes_per_step / seeds;
  const double end = figures.accuracy(run.name);
  const double apart = end - run.independent.end;
  std::string verdict;
  if (!std::isnan(apart)) verdict = std::abs(apart) <= run.tolerance ? "yes" : "**no**";
  return row({run.name, std::to_string(run.workers), cell(figures.accuracy(run.name, 1.0 / 6.0), 1),
              cell(figures.accuracy(run.name, 1.0 / 3.0), 1), cell(figures.accuracy(run.name, 0.5), 1),
              std::isnan(end) ? fixed(figures.loss(run.name), 3) : fixed(end, 1), seeds_of(results), cell(run.independent.end, 1), cell(apart, 1), verdict,
              figures.bits(run.name) > 0.0 ? fixed(figures.bits(run.name), 2) : "",
              figures.rounds(run.name) > 0.0 ? fixed(figures.rounds(run.name), 0) : "", fixed(bytes, 0)});
}

/// The tasks that there are figures of. A page is about them: runs and claims of other tasks do not stand there.
std::set<std::string> tasks_of(const Figures& figures) {
  std::set<std::string> tasks;
  for (const NetworkResult& result : figures.all()) tasks.insert(run_named(result.run).task);
  return tasks;
}

/// "3,000 steps, seeds 1, 2": what the figures are of.
std::string origin(const Figures& figures) {
  std::set<std::uint32_t> steps;
  std::set<std::uint64_t> seeds;
  for (const NetworkResult& result : figures.all()) {
    steps.insert(result.steps);
    seeds.insert(result.seed);
  }
  std::string step_list;
  std::string seed_list;
  for (const std::uint32_t each : steps) append(step_list, ", ", std::to_string(each));
  for (const std::uint64_t each : seeds) append(seed_list, ", ", std::to_string(each));
  return "Steps per run: " + step_list + ". Seeds: " + seed_list +
         ". Accuracies in percent" + (tasks_of(figures).contains("text") ? ", of gpt validation losses" : "") +
         ", means over seeds; bytes are those that the busiest rank sends in a step.\n\n";
}

std::string runs_table(const Figures& figures) {
  std::string text = row({"run", "workers", "1/6", "1/3", "1/2", "end", "by seed", "independent", "apart",
                          "within bounds", "bits", "rounds", "bytes per step"});
  text += "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|\n";
  std::string absent;
  const auto tasks = tasks_of(figures);
  for (const NetworkRun& run : run_table()) {
    if (!figures.of(run.name).empty()) {
      text += run_row(run, figures);
    } else if (tasks.contains(run.task)) {
      append(absent, ", ", run.name);
    }
  }
  if (!absent.empty()) text += "\nNot run: " + absent + ".\n";
  return text;
}

std::string claims_table(const Figures& figures) {
  std::string text = row({"claim", "published", "independent model", "measured", "rule", "verdict"});
  text += "|---|---|---|---|---|---|\n";
  const auto tasks = tasks_of(figures);
  for (const Claim& claim : claims_on(Subject::networks)) {
    if (!tasks.contains(run_named(std::get<NetworkCheck>(claim.check).runs.front()).task)) continue;
    const CheckedClaim checked = judge_claim(claim, figures);
    const std::string bold = checked.outcome && !checked.outcome->holds ? "**" : "";
    text += row({claim.name, claim.published, claim.independent, measured(checked), claim.rule,
                 bold + verdict(checked) + bold});
  }
  return text;
}

}  // namespace

std::string markdown(const Figures& figures) {
  return origin(figures) + runs_table(figures) + "\n" + claims_table(figures);
}

std::string with_section(const std::string& page, const std::string& section) {
  const std::size_t begin = page.find(kSectionBegin);
  const std::size_t end = page.find(kSectionEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    throw InvalidConfig(std::string("the page must have the lines\n") + kSectionBegin + "\n" + kSectionEnd +
                        "\nbetween which the tables are put");
  }
  const std::size_t kept = begin + std::string(kSectionBegin).size();
  return page.substr(0, kept) + "\n" + section + page.substr(end);
}

}  // namespace laconic::claims
