#pragma once

#include <fstream>
#include <string>

#include "experiment/config_text.h"

// What a run leaves on disk: config.json, metrics.jsonl (a line a step) and result.json; and TOML to start one from.

namespace laconic {

/// A TOML file, or JSON, such as an earlier run's config.json, where the name ends in .json. Keys at the top are the
/// run's; the tables problem or task, method and optimizer have a `name` and settings, or are just the name.
/// InvalidConfig naming the file, and in TOML the line, where it does not parse; unknown keys are found by config_from.
std::vector<ConfigEntry> read_config_file(const std::string& path);

/// Whether it is a config.json that Laconic wrote: other programs have files of that name, too.
bool is_config_of_run(const std::string& path);

/// One JSON object in sections, numbers as numbers.
std::string config_json(const RunConfig& config);

/// One JSON object, one line.
std::string metrics_line(const StepRecord& record);

std::string result_json(const RunConfig& config, const RunResult& result);

/// Writes a line a step, flushed, so that a run that is cut leaves all that it did.
class MetricsFile : public Observer {
 public:
  /// Error if it cannot be written. A run that goes on after `steps` keeps the lines up to that step.
  explicit MetricsFile(const std::string& path, std::uint32_t steps = 0);
  void on_step(const StepRecord& record) override;

 private:
  std::string path_;
  std::ofstream output_;
};

}  // namespace laconic
