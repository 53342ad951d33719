#pragma once

#include <memory>
#include <string>

#include "experiment/checkpoint.h"
#include "experiment/files.h"

namespace laconic::tools {

/// What a run leaves on disk: config.json and metrics.jsonl from its start, result.json from its end, and what its
/// ranks write by its plan.
class RunFolder {
 public:
  /// Empty: nothing is written. Error if the folder cannot be made, or holds a run and `overwrite` is false.
  RunFolder(std::string path, bool overwrite);

  /// The configuration is written, an earlier result removed; metrics go to the file that is handed back, if any.
  std::unique_ptr<MetricsFile> begin(const RunConfig& config) const;
  /// The same for a run that goes on after so many steps: its configuration is there.
  std::unique_ptr<MetricsFile> go_on(std::uint32_t steps) const;
  void finish(const RunConfig& config, const RunResult& result) const;

 private:
  std::string file(const char* name) const { return path_ + "/" + name; }

  std::string path_;
};

/// InvalidConfig where checkpoints are wanted and there is no folder for them.
void require_place_for_checkpoints(const RunConfig& config, const std::string& out);

/// Where the ranks of a run in this folder write checkpoints and the tested model; nowhere where it is empty.
CheckpointPlan plan_in(const std::string& folder);

/// A run's folder and the checkpoint to go on from.
struct Resumed {
  std::string folder;
  std::string checkpoint;
};

/// `path` is a run's folder or the one of its checkpoints, whose newest it is, or a checkpoint in one. Error where
/// there is none.
Resumed find_resumed(const std::string& path);

}  // namespace laconic::tools
