#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/run.h"

// The runs of a network that the papers' claims are decided by, each with a name; several claims share a run.

namespace laconic::claims {

/// Test accuracies in percent that an independent model of the method came to; NaN where it has none.
struct Independent {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double first_sixth = kNone;  ///< 500 of 3,000 steps
  double first_third = kNone;  ///< 1,000
  double half = kNone;         ///< 1,500
  double end = kNone;
  double bits = kNone;  ///< a coordinate, mean over steps
};

struct NetworkRun {
  const char* name;
  const char* method;
  MethodOptions options{};
  Independent independent{};
  int workers = 8;
  double learning_rate = 0.0;  ///< 0: what default_task_config has for the method
  int adversaries = 0;
  bool keeps_model = false;  ///< the tested model stays with the record, for what is measured there later
  std::uint32_t batch = 16;  ///< of a worker
  double tolerance = 1.0;    ///< how far it may end from its independent figure, which has one seed, in points
  const char* task = "fashion-mnist";
  const char* model = "cnn";
  std::uint32_t steps = 3000;
};

/// What all runs have in common. Batches are drawn with replacement; the learning rate has the task's schedule.
struct Scale {
  std::string task{};   ///< empty: the run's own
  std::string model{};  ///< empty: the run's own
  std::string text{};   ///< a file for runs on the task `text`; empty: the text that the program writes
  std::string device = "cpu";
  std::uint32_t steps = 0;  ///< 0: the run's own number
  std::uint64_t seed = 1;
  int workers = 0;                  ///< 0: the run's own number
  std::uint32_t train_samples = 0;  ///< 0: all
  std::uint32_t test_samples = 0;
};

/// The one table of runs; those that most claims need come first.
std::span<const NetworkRun> run_table();

/// InvalidConfig with the nearest name where there is none of this.
const NetworkRun& run_named(std::string_view name);

/// A step that is not finite is dropped, so that a run which diverges ends with the accuracy or loss of guessing. Tested
/// after each sixth of the steps.
RunConfig config_of(const NetworkRun& run, const Scale& scale);

}  // namespace laconic::claims
