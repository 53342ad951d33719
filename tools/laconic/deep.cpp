#include "deep.h"

#include <fmt/format.h>

#include "usage.h"

#include "laconic/error.h"
#if LACONIC_TORCH
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/printable.h"
#include "bench/progress.h"
#include "output_file.h"
#include "text_table.h"
#include "torch/deep/flatness.h"
#include "torch/deep/markdown.h"
#include "torch/deep/results_file.h"
#endif

namespace laconic::tools {

void DeepFlags::add_to(CLI::App& command) {
  command.add_flag("--deep", deep, "check claims about a network on Fashion-MNIST instead; takes hours on two cores");
  const auto with_deep = [this](CLI::Option* option) {
    option->description("with --deep: " + option->get_description());
    options_.push_back(option);
    return option;
  };
  with_deep(command.add_option("--data", data, "folder of the data sets' folders; default: LACONIC_DATA, or data"))
      ->option_text("DIR");
  with_deep(command.add_option("--device", device, "where networks are trained: cpu; default cpu"))
      ->option_text("NAME");
  with_deep(command.add_option("--out", out, "folder for the runs; runs that are complete there are not repeated"))
      ->option_text("DIR")
      ->capture_default_str();
  with_deep(command.add_option("--steps", steps, "steps per run; default 3000"))
      ->check(whole_in(6, 1000000))
      ->option_text("NUMBER");
  with_deep(command.add_option("--first-seed", first_seed, "the first seed; default 1"))
      ->check(whole_in(0, 1000000000))
      ->option_text("NUMBER");
  with_deep(command.add_option("--jobs", jobs, "concurrent runs, each with one thread per worker; 0: one per 8 cores"))
      ->check(whole_in(0, 1024))
      ->option_text("NUMBER");
  with_deep(command.add_option("--seconds", seconds, "start no further run after this time; 0: no limit"))
      ->check(finite_from_zero())
      ->option_text("NUMBER");
  with_deep(command.add_flag("--run-only", run_only, "make the runs and print their figures, without verdicts"));
  with_deep(
      command.add_option("--runs", runs, "only these runs, separated by commas, or all; default: those of the claims"))
      ->option_text("NAME,...");
  with_deep(command.add_option("--results", results, "judge the figures in FILE (from --run-only --json); run nothing"))
      ->option_text("FILE");
  with_deep(command.add_option("--markdown", markdown, "write the tables into the marked section of the page FILE"))
      ->option_text("FILE");
}

void DeepFlags::require_used() const {
  for (const CLI::Option* option : options_) {
    if (deep || option->count() == 0) continue;
    throw InvalidConfig(option->get_name() + " is about the deep claims: add --deep, or leave it out");
  }
}

#if LACONIC_TORCH
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

std::string percent(double value) { return std::isnan(value) ? "-" : fmt::format("{:.1f}", value); }

/// On a terminal one line that is written over, with what runs now; and a line for each run that ended.
class Board {
 public:
  Board() : terminal_(isatty(fileno(stderr)) != 0), line_(terminal_) {}

  void say(const std::string& line) {
    line_.clear();
    std::cerr << printable(line) << '\n';  // why a run failed may quote files
  }

  void show(const deep::Progress& progress, const deep::DeepResult* done) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    if (done != nullptr) {
      say(fmt::format("{:>5.0f} s  {} of {}  {} seed {}: {} %, {:.0f} s", seconds, progress.finished, progress.total,
                      done->run, done->seed, percent(done->accuracy), done->wall_seconds));
    }
    std::string text = fmt::format("{} of {} runs, {:.0f} s", progress.finished, progress.total, seconds);
    for (const auto& run : progress.active) {
      text += fmt::format("; {}/{} {} of {}", run.run, run.seed, run.step, run.steps);
      if (!std::isnan(run.accuracy)) text += fmt::format(" {} %", percent(run.accuracy));
    }
    if (terminal_) line_.say(text);
  }

 private:
  bool terminal_;
  bench::Progress line_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

deep::RunOptions options_of(const DeepFlags& flags, int seeds) {
  deep::RunOptions options;
  options.scale.device = flags.device;
  options.scale.steps = static_cast<std::uint32_t>(flags.steps);
  options.scale.seed = static_cast<std::uint64_t>(flags.first_seed);
  options.seeds = seeds > 0 ? seeds : 2;
  options.jobs = flags.jobs > 0 ? flags.jobs : static_cast<int>(std::max(1U, std::thread::hardware_concurrency() / 8));
  options.data_folder = flags.data;
  options.out = flags.out;
  options.seconds = flags.seconds;
  return options;
}

void show_results(const std::vector<deep::DeepResult>& results) {
  std::vector<std::vector<std::string>> rows{
      {"RUN", "SEED", "1/6", "1/3", "1/2", "END", "INDEPENDENT", "BITS", "ROUNDS", "SECONDS"}};
  for (const deep::DeepResult& result : results) {
    rows.push_back({result.run, std::to_string(result.seed), percent(result.after(1.0 / 6.0)),
                    percent(result.after(1.0 / 3.0)), percent(result.after(0.5)), percent(result.accuracy),
                    percent(deep::run_named(result.run).independent.end),
                    result.mean_bits > 0.0 ? fmt::format("{:.2f}", result.mean_bits) : "-",
                    std::to_string(result.rounds), fmt::format("{:.0f}", result.wall_seconds)});
  }
  std::cout << text_table(rows, {false, true, true, true, true, true, true, true, true, true});
}

std::vector<const deep::DeepClaim*> chosen_claims(const ClaimFlags& flags) {
  std::vector<const deep::DeepClaim*> claims;
  for (const std::string& name : without_repeats(flags.names)) claims.push_back(&deep::claim_named(name));
  if (claims.empty()) {
    for (const deep::DeepClaim& claim : deep::claim_table()) claims.push_back(&claim);
  }
  return claims;
}

std::vector<std::string> chosen_runs(const DeepFlags& flags, const std::vector<const deep::DeepClaim*>& claims) {
  std::vector<std::string> names = split(flags.runs);
  if (flags.runs == "all") {
    names.clear();
    for (const deep::DeepRun& run : deep::run_table()) names.emplace_back(run.name);
  }
  for (const std::string& name : names) deep::run_named(name);
  return names.empty() ? deep::runs_of(claims) : names;
}

/// Runs alone have their flatness measured only where the claim is named: it takes as long as many steps.
bool wants_flatness(const DeepFlags& flags, const ClaimFlags& given,
                    const std::vector<const deep::DeepClaim*>& claims) {
  const bool needed =
      std::any_of(claims.begin(), claims.end(), [](const auto* claim) { return claim->needs_flatness; });
  return needed && (!flags.run_only || !given.names.empty());
}

std::vector<deep::DeepResult> results_for(const DeepFlags& flags, const ClaimFlags& given,
                                          const std::vector<const deep::DeepClaim*>& claims) {
  const auto names = chosen_runs(flags, claims);
  if (!flags.results.empty()) return deep::read_results_json(flags.results);
  deep::RunOptions options = options_of(flags, given.seeds);
  Board board;
  options.watch = [&](const deep::Progress& progress, const deep::DeepResult* done) { board.show(progress, done); };
  options.failed = [&](const std::string& run, const std::string& why) { board.say(run + " failed: " + why); };
  auto results = deep::make_runs(names, options);
  if (!wants_flatness(flags, given, claims)) return results;
  deep::measure_flatness(names, options, [&](const std::string& run, std::uint64_t seed) {
    board.say(fmt::format("flatness of {} seed {} is measured", run, seed));
  });
  return deep::read_results(names, options);
}

/// A claim and what came of it; nothing where runs are missing.
struct Judged {
  const deep::DeepClaim* claim;
  std::vector<std::string> missing;
  std::optional<ClaimOutcome> outcome;
  double seconds = 0.0;   ///< of its runs
  std::size_t seeds = 0;  ///< the fewest of a run
};

Judged judge(const deep::DeepClaim& claim, const deep::Figures& figures) {
  Judged judged{&claim, deep::missing(claim, figures), {}};
  if (judged.missing.empty()) judged.outcome = claim.check(figures);
  for (const char* name : claim.runs) {
    const auto results = figures.of(name);
    for (const deep::DeepResult* result : results) judged.seconds += result->wall_seconds;
    judged.seeds = name == claim.runs.front() ? results.size() : std::min(judged.seeds, results.size());
  }
  return judged;
}

std::string verdict(const Judged& judged) {
  if (!judged.outcome) return "not decided";
  return judged.outcome->holds ? "holds" : "does not hold";
}

std::string measured(const Judged& judged) {
  if (judged.outcome) return judged.outcome->measured;
  std::string text = "missing:";
  for (const std::string& name : judged.missing) text += " " + name;
  return text;
}

void show_claim(const Judged& judged) {
  const deep::DeepClaim& claim = *judged.claim;
  std::cout << fmt::format("{}: {}\n  {}\n  published    {}\n  independent  {}\n  measured     {}\n  rule         {}\n",
                           claim.name, verdict(judged), claim.statement, claim.published, claim.independent,
                           measured(judged), claim.rule);
  if (judged.outcome) {
    std::vector<std::vector<std::string>> rows{judged.outcome->columns};
    rows.insert(rows.end(), judged.outcome->rows.begin(), judged.outcome->rows.end());
    std::vector<bool> right(judged.outcome->columns.size(), true);
    right[0] = false;
    std::stringstream lines(text_table(rows, right));
    for (std::string line; std::getline(lines, line);) std::cout << "    " << line << '\n';
  }
  std::cout << '\n' << std::flush;
}

Json json_of(const Judged& judged) {
  const deep::DeepClaim& claim = *judged.claim;
  Json json{{"claim", claim.name},
            {"paper", claim.paper},
            {"statement", claim.statement},
            {"published", claim.published},
            {"independent", claim.independent},
            {"measured", measured(judged)},
            {"rule", claim.rule},
            {"holds", judged.outcome ? Json(judged.outcome->holds) : Json()},
            {"seeds", judged.seeds},
            {"seconds", judged.seconds}};
  if (judged.outcome) json["table"] = {{"columns", judged.outcome->columns}, {"rows", judged.outcome->rows}};
  return json;
}

void show_list(const std::vector<const deep::DeepClaim*>& claims, const JsonOutput& json) {
  std::vector<std::vector<std::string>> rows{{"CLAIM", "RUNS", "WHAT IT SAYS", "PAPER"}};
  Json all = Json::array();
  for (const deep::DeepClaim* claim : claims) {
    rows.push_back({claim->name, std::to_string(claim->runs.size()), claim->statement, claim->paper});
    all.push_back({{"claim", claim->name},
                   {"paper", claim->paper},
                   {"statement", claim->statement},
                   {"published", claim->published},
                   {"independent", claim->independent},
                   {"rule", claim->rule},
                   {"runs", claim->runs}});
  }
  if (!json.on_stdout()) std::cout << text_table(rows, {false, true, false, false});
  json.write(all.dump(2) + "\n");
}

void write_page(const std::string& path, const deep::Figures& figures) {
  std::ifstream input(path, std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(input), {}};
  write_file(path, deep::with_section(page, deep::markdown(figures)));
}

void judge_all(const std::vector<const deep::DeepClaim*>& claims, const deep::Figures& figures,
               const JsonOutput& output) {
  std::vector<std::vector<std::string>> rows{{"CLAIM", "VERDICT", "SECONDS OF RUNS", "PAPER"}};
  Json json = Json::array();
  std::size_t fallen = 0;
  std::size_t open = 0;
  for (const deep::DeepClaim* claim : claims) {
    const Judged judged = judge(*claim, figures);
    if (!output.on_stdout()) show_claim(judged);
    rows.push_back({claim->name, verdict(judged), fmt::format("{:.0f}", judged.seconds), claim->paper});
    json.push_back(json_of(judged));
    open += judged.outcome ? 0 : 1;
    fallen += judged.outcome && !judged.outcome->holds ? 1 : 0;
  }
  if (!output.on_stdout()) std::cout << text_table(rows, {false, false, true, false});
  output.write(json.dump(2) + "\n");
  if (fallen + open > 0) {
    throw Error(fmt::format("of {} claims {} do not hold and {} are not decided", claims.size(), fallen, open));
  }
}

}  // namespace

void reproduce_deep(const DeepFlags& flags, const ClaimFlags& claims) {
  const auto chosen = chosen_claims(claims);
  claims.json.require_writable();
  if (claims.list) return show_list(chosen, claims.json);
  const deep::Figures figures(results_for(flags, claims, chosen));
  if (!flags.markdown.empty()) write_page(flags.markdown, figures);
  if (!flags.run_only) return judge_all(chosen, figures, claims.json);
  if (!claims.json.on_stdout()) show_results(figures.all());
  claims.json.write(deep::results_json(figures.all()));
}

#else

void reproduce_deep(const DeepFlags& /*flags*/, const ClaimFlags& /*claims*/) {
  throw InvalidConfig(
      "--deep trains networks, and this program was built without PyTorch: run scripts/setup, then build again "
      "(cmake says LACONIC_TORCH: on)");
}

#endif

}  // namespace laconic::tools
