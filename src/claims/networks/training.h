#pragma once

#include <functional>
#include <string>
#include <vector>

#include "claims/networks/results.h"

// Runs that leave their record on disk (records/writer.h), so that a long reproduction can be cut and goes on: a run
// whose record is whole is not made again, and one that was cut goes on from its last checkpoint.

namespace laconic::claims {

/// What is under way, for whoever watches.
struct Progress {
  struct Active {
    std::string run;
    std::uint64_t seed;
    std::uint32_t step;
    std::uint32_t steps;
    double accuracy;  ///< percent, at the last evaluation; NaN before the first
  };
  std::size_t finished = 0;  ///< those that were there before included
  std::size_t total = 0;
  std::vector<Active> active{};
};

struct RunOptions {
  Scale scale{};              ///< its seed is the first one
  int seeds = 1;              ///< first, first + 1, …
  int jobs = 1;               ///< runs at once, each with a thread a worker
  std::string data_folder{};  ///< empty: default_data_folder()
  std::string out{};          ///< a run's record is in out/name/seed
  double seconds = 0.0;       ///< after so long no run is begun any more; 0: no end
  /// Called from any thread but one at a time; empty: nobody is told. `done` is null unless a run has just ended.
  std::function<void(const Progress& progress, const NetworkResult* done)> watch{};
  /// Told, one at a time, which run failed and why, and the others go on; empty: thrown when all others are done.
  std::function<void(const std::string& run, const std::string& why)> failed{};
};

/// Every run of every seed, in the order of the names and seeds in turn: those that `options.seconds` left time for.
/// InvalidConfig where the data set is not there, before anything runs.
std::vector<NetworkResult> make_runs(const std::vector<std::string>& names, const RunOptions& options);

}  // namespace laconic::claims
