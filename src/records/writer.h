#pragma once

#include <optional>
#include <string>

#include "base/folder_lock.h"
#include "experiment/checkpoint.h"
#include "experiment/run.h"
#include "records/run_record.h"

namespace laconic {

/// What happens to a run that is already in the folder.
enum class Earlier { kept, overwritten, resumed };

/// The files of a run: config.json and metrics.jsonl from its start, result.json at its end, and what its ranks write
/// according to its plan. Nothing in the folder changes before the run starts, and no other process writes there during
/// the lifetime of this object.
class RunFolder final : public Observer {
 public:
  /// If the path is empty, nothing is written. Throws Error if the folder cannot be created, if another process writes
  /// there, if it contains a run and `earlier` is kept, and always if it contains files with the names of a run's files
  /// that no run of Laconic wrote.
  RunFolder(std::string path, RunConfig config, Earlier earlier);

  /// Writes the configuration and removes the files of an earlier run. A resumed run already has its configuration
  /// there and keeps the metrics of its first `steps` steps.
  void on_start(std::uint32_t steps) override;
  void on_step(const StepRecord& record) override;
  void finish(const RunResult& result) const;

 private:
  std::string file(const char* name) const { return record_->file(name); }
  void require_place() const;

  std::string path_;
  RunConfig config_;
  Earlier earlier_;
  std::optional<FolderLock> lock_;
  std::optional<RunRecord> record_;
};

/// Where the ranks of a run in this folder write checkpoints and the tested model. If `folder` is empty, they write
/// none.
CheckpointPlan plan_in(const std::string& folder);

/// A run's folder and the checkpoint from which it continues.
struct Resumed {
  std::string folder;
  std::string checkpoint;
};

/// `path` is a checkpoint, or a run's folder or its folder of checkpoints, of which the newest checkpoint is taken.
/// Throws Error if there is no checkpoint.
Resumed find_resumed(const std::string& path);

}  // namespace laconic
