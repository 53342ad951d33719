#include "deep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>

#include "claims/networks/judge.h"
#include "claims/networks/markdown.h"
#include "claims/networks/results_file.h"
#include "claims_output.h"
#include "laconic/error.h"
#include "output_file.h"
#include "text_table.h"
#include "usage.h"
#if LACONIC_TORCH
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/printable.h"
#include "bench/progress.h"
#include "claims/networks/flatness.h"
#include "claims/networks/record_files.h"
#include "claims/networks/training.h"
#endif

namespace laconic::tools {

void DeepFlags::add_to(CLI::App& command) {
  command.add_flag("--deep", deep, "check claims about networks instead: a cnn on Fashion-MNIST, a small gpt on text; takes hours on two cores");
  const auto with_deep = [this](CLI::Option* option) {
    option->description("with --deep: " + option->get_description());
    options_.push_back(option);
    return option;
  };
  with_deep(command.add_option("--data", data, "folder of the data sets' folders; default: LACONIC_DATA, or data"))
      ->option_text("DIR");
  with_deep(command.add_option("--text", text, "text file for the claims about gpt; default: a text that the program writes"))
      ->option_text("FILE");
  with_deep(command.add_option("--device", device, "where networks are trained: cpu or cuda; default cpu"))
      ->option_text("NAME");
  with_deep(command.add_option("--out", out, "folder for the runs; runs that are complete there are not repeated"))
      ->option_text("DIR")
      ->capture_default_str();
  with_deep(command.add_option("--steps", steps, "steps per run; default 3000; 600 for gpt"))
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

namespace {

std::string percent(double value) { return std::isnan(value) ? "-" : fmt::format("{:.1f}", value); }

/// How a run ended: "91.9 %", or of a model of language "loss 1.234". Unused without torch, where no network trains.
[[maybe_unused]] std::string end_text(const claims::NetworkResult& result) {
  return std::isnan(result.accuracy) ? fmt::format("loss {:.3f}", result.loss) : percent(result.accuracy) + " %";
}

void show_results(const std::vector<claims::NetworkResult>& results) {
  std::vector<std::vector<std::string>> rows{
      {"RUN", "SEED", "1/6", "1/3", "1/2", "END", "LOSS", "INDEPENDENT", "BITS", "ROUNDS", "SECONDS"}};
  for (const claims::NetworkResult& result : results) {
    rows.push_back({result.run, std::to_string(result.seed), percent(result.after(1.0 / 6.0)),
                    percent(result.after(1.0 / 3.0)), percent(result.after(0.5)), percent(result.accuracy), fmt::format("{:.3f}", result.loss),
                    percent(claims::run_named(result.run).independent.end),
                    result.mean_bits > 0.0 ? fmt::format("{:.2f}", result.mean_bits) : "-",
                    std::to_string(result.rounds), fmt::format("{:.0f}", result.wall_seconds)});
  }
  std::cout << text_table(rows, {false, true, true, true, true, true, true, true, true, true, true});
}

std::vector<std::string> chosen_runs(const DeepFlags& flags, const std::vector<const Claim*>& claims) {
  if (flags.runs.empty()) return claims::runs_of(claims);
  std::vector<std::string> names;
  if (flags.runs == "all") {
    for (const claims::NetworkRun& run : claims::run_table()) names.emplace_back(run.name);
    return names;
  }
  names = names_in(flags.runs, "--runs");
  for (const std::string& name : names) claims::run_named(name);  // refuses a name that is unknown
  return names;
}

#if LACONIC_TORCH

/// On a terminal one line that is written over, with what runs now; and a line for each run that ended.
class Board {
 public:
  Board() : terminal_(isatty(fileno(stderr)) != 0), line_(terminal_) {}

  void say(const std::string& line) {
    line_.clear();
    std::cerr << printable(line) << '\n';  // why a run failed may quote files
  }

  void show(const claims::Progress& progress, const claims::NetworkResult* done) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    if (done != nullptr) {
      say(fmt::format("{:>5.0f} s  {} of {}  {} seed {}: {}, {:.0f} s", seconds, progress.finished, progress.total,
                      done->run, done->seed, end_text(*done), done->wall_seconds));
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

claims::RunOptions options_of(const DeepFlags& flags, int seeds) {
  claims::RunOptions options;
  options.scale.device = flags.device;
  options.scale.text = flags.text;
  options.scale.steps = static_cast<std::uint32_t>(flags.steps);
  options.scale.seed = static_cast<std::uint64_t>(flags.first_seed);
  options.seeds = seeds > 0 ? seeds : 2;
  options.jobs = flags.jobs > 0 ? flags.jobs : static_cast<int>(std::max(1U, std::thread::hardware_concurrency() / 8));
  options.data_folder = flags.data;
  options.out = flags.out;
  options.seconds = flags.seconds;
  return options;
}

/// Runs alone have their flatness measured only where the claim is named: it takes as long as many steps.
bool wants_flatness(const DeepFlags& flags, const ClaimFlags& given, const std::vector<const Claim*>& claims) {
  const bool needed = std::any_of(claims.begin(), claims.end(), [](const Claim* claim) {
    return std::get<NetworkCheck>(claim->check).needs_flatness;
  });
  return needed && (!flags.run_only || !given.names.empty());
}

std::vector<claims::NetworkResult> results_of_runs(const std::vector<std::string>& names, const DeepFlags& flags,
                                                   const ClaimFlags& given, const std::vector<const Claim*>& claims) {
  claims::RunOptions options = options_of(flags, given.seeds);
  Board board;
  options.watch = [&](const claims::Progress& progress, const claims::NetworkResult* done) {
    board.show(progress, done);
  };
  options.failed = [&](const std::string& run, const std::string& why) { board.say(run + " failed: " + why); };
  auto results = claims::make_runs(names, options);
  if (!wants_flatness(flags, given, claims)) return results;
  claims::measure_flatness(names, options, [&](const std::string& run, std::uint64_t seed) {
    board.say(fmt::format("measuring the flatness of {}, seed {}", run, seed));
  });
  return claims::read_results(names, options);
}

#else

std::vector<claims::NetworkResult> results_of_runs(const std::vector<std::string>& /*names*/,
                                                   const DeepFlags& /*flags*/, const ClaimFlags& /*given*/,
                                                   const std::vector<const Claim*>& /*claims*/) {
  throw InvalidConfig(
      "--deep trains networks, and this program was built without PyTorch: run scripts/setup, then build again "
      "(cmake says LACONIC_TORCH: on); --list and --results work without it");
}

#endif

void write_page(const std::string& path, const claims::Figures& figures) {
  std::ifstream input(path, std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(input), {}};
  write_file(path, claims::with_section(page, claims::markdown(figures)));
}

void judge_all(const std::vector<const Claim*>& claims, const claims::Figures& figures, const JsonOutput& json) {
  std::vector<CheckedClaim> all;
  for (const Claim* claim : claims) {
    all.push_back(judge_claim(*claim, figures));
    show_claim(all.back(), json);
  }
  show_verdicts(all, json);
}

}  // namespace

void reproduce_deep(const DeepFlags& flags, const ClaimFlags& given) {
  const auto chosen = chosen_claims(given, Subject::networks);
  given.json.require_writable();
  if (given.list) return show_list(chosen, given.json);
  const auto runs = chosen_runs(flags, chosen);
  const claims::Figures figures(flags.results.empty() ? results_of_runs(runs, flags, given, chosen)
                                                      : claims::read_results_json(flags.results));
  if (!flags.markdown.empty()) write_page(flags.markdown, figures);
  if (!flags.run_only) return judge_all(chosen, figures, given.json);
  if (!given.json.on_stdout()) show_results(figures.all());
  given.json.write(claims::results_json(figures.all()));
}

}  // namespace laconic::tools
