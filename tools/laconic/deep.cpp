#include "deep.h"

#include <fmt/format.h>

#include "usage.h"

#if LACONIC_TORCH
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <set>
#include <sstream>
#include <thread>

#include "bench/progress.h"
#include "laconic/error.h"
#include "text_table.h"
#include "torch/deep/records.h"
#else
#include "laconic/error.h"
#endif

namespace laconic::tools {

void DeepFlags::add_to(CLI::App& command) {
  command.add_flag("--deep", deep, "claims about a network on Fashion-MNIST instead: hours on two cores");
  command.add_option("--data", data, "with --deep: where the data sets' folders are; else LACONIC_DATA, or data")
      ->option_text("DIR");
  command.add_option("--out", out, "with --deep: where runs are kept; what is whole there is not run again")
      ->option_text("DIR")
      ->capture_default_str();
  command.add_option("--steps", steps, "with --deep: of each run, default 3000")
      ->check(whole_in(6, 1000000))
      ->option_text("NUMBER");
  command.add_option("--first-seed", first_seed, "with --deep: seeds count from this, default 1")
      ->check(whole_in(0, 1000000000))
      ->option_text("NUMBER");
  command.add_option("--jobs", jobs, "with --deep: runs at once, each with a thread a worker; 0: one for 8 cores")
      ->check(whole_in(0, 1024))
      ->option_text("NUMBER");
  command.add_option("--seconds", seconds, "with --deep: begin no run any more after so long; 0: no end")
      ->check(CLI::NonNegativeNumber)
      ->option_text("NUMBER");
  command.add_flag("--run-only", run_only, "with --deep: make the runs and print their figures, judge nothing");
  command.add_option("--runs", runs, "with --run-only: which runs, by commas; none: those of the claims")
      ->option_text("NAME,...");
}

#if LACONIC_TORCH
namespace {

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
  explicit Board(bool lines) : terminal_(isatty(fileno(stderr)) != 0), lines_(lines), line_(terminal_) {}

  void show(const deep::Progress& progress, const deep::DeepResult* done) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    if (done != nullptr && lines_) {
      line_.clear();
      std::cerr << fmt::format("{:>5.0f} s  {} of {}  {} seed {}: {} %, {:.0f} s\n", seconds, progress.finished,
                               progress.total, done->run, done->seed, percent(done->accuracy), done->wall_seconds);
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
  bool lines_;
  bench::Progress line_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

deep::RunOptions options_of(const DeepFlags& flags, int seeds) {
  deep::RunOptions options;
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
                    percent(deep::run_named(result.run).independent.end), fmt::format("{:.2f}", result.mean_bits),
                    std::to_string(result.rounds), fmt::format("{:.0f}", result.wall_seconds)});
  }
  std::cout << text_table(rows, {false, true, true, true, true, true, true, true, true, true});
}

void run_only(const DeepFlags& flags, const ClaimFlags& claims) {
  std::vector<std::string> names = split(flags.runs);
  if (names.empty()) {
    for (const deep::DeepRun& run : deep::run_table()) names.emplace_back(run.name);
  }
  for (const std::string& name : names) deep::run_named(name);
  deep::RunOptions options = options_of(flags, claims.seeds);
  Board board(true);
  options.watch = [&](const deep::Progress& progress, const deep::DeepResult* done) { board.show(progress, done); };
  const auto results = deep::make_runs(names, options);
  if (!claims.json.on_stdout()) show_results(results);
  claims.json.write(deep::results_json(results, options.scale));
}

}  // namespace

void reproduce_deep(const DeepFlags& flags, const ClaimFlags& claims) {
  claims.json.require_writable();
  run_only(flags, claims);
}

#else

void reproduce_deep(const DeepFlags& /*flags*/, const ClaimFlags& /*claims*/) {
  throw InvalidConfig(
      "--deep trains networks, and this program was built without PyTorch: run scripts/setup, then build again "
      "(cmake says LACONIC_TORCH: on)");
}

#endif

}  // namespace laconic::tools
