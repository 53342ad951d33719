#pragma once

#include <fstream>
#include <optional>
#include <string>

#include "base/folder_lock.h"
#include "experiment/checkpoint.h"
#include "experiment/run.h"

namespace laconic {

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

/// What becomes of a run that is in the folder already.
enum class Earlier { kept, overwritten, resumed };

/// What a run leaves on disk: config.json and metrics.jsonl from its start, result.json from its end, and what its
/// ranks write by its plan. Nothing in the folder changes before the run starts, and no other process writes there as
/// long as this lives.
class RunFolder final : public Observer {
 public:
  /// Without a path nothing is written. Error if the folder cannot be made, if another process writes there, if it
  /// holds a run and `earlier` is kept, and always if it holds files of a run's names that no run of Laconic wrote.
  RunFolder(std::string path, RunConfig config, Earlier earlier);

  /// Writes the configuration and removes what an earlier run left. A run that is resumed has its configuration there,
  /// and keeps the metrics of its first `steps`.
  void on_start(std::uint32_t steps) override;
  void on_step(const StepRecord& record) override;
  void finish(const RunResult& result) const;

 private:
  std::string file(const char* name) const { return path_ + "/" + name; }
  void require_place() const;

  std::string path_;
  RunConfig config_;
  Earlier earlier_;
  std::optional<FolderLock> lock_;
  std::optional<MetricsFile> metrics_;
};

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

}  // namespace laconic
