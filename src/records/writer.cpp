#include "records/writer.h"

#include <filesystem>

#include "base/whole_file.h"
#include "laconic/error.h"
#include "records/config_file.h"
#include "records/file_names.h"
#include "records/formats.h"

namespace laconic {

namespace fs = std::filesystem;

RunFolder::RunFolder(std::string path, RunConfig config, Earlier earlier)
    : path_(std::move(path)), config_(std::move(config)), earlier_(earlier) {
  if (path_.empty()) return;
  record_.emplace(path_);
  require_place();  // before the lock's file is made: nothing is written into a folder that is refused
  lock_.emplace(path_);
  require_place();  // another process may have begun a run there meanwhile
  require_writable(file(kConfigFile));
  if (!is_config_of_run(file(kConfigFile))) return;
  for (const char* name : {kConfigFile, kMetricsFile, kResultFile, kModelFile}) {
    remove_cut_writes(file(name));
  }
}

/// Files of these names may be anybody's: only a folder with a config.json of ours is a run.
void RunFolder::require_place() const {
  if (earlier_ == Earlier::resumed) return;
  const bool ours = is_config_of_run(file(kConfigFile));
  if (ours && earlier_ == Earlier::overwritten) return;
  for (const char* name : {kConfigFile, kMetricsFile, kResultFile, kModelFile, kCheckpointFolder}) {
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(file(name), ignored))) continue;
    if (ours) throw Error(path_ + " holds a run already (" + name + "): name another folder, or add --overwrite");
    throw Error(path_ + " has " + name + " in it but is no run of laconic, so nothing there is replaced: " +
                "name another folder, or move it elsewhere");
  }
}

void RunFolder::on_start(std::uint32_t steps) {
  if (path_.empty()) return;
  if (earlier_ != Earlier::resumed) {
    std::error_code ignored;
    // So that nothing goes on from them.
    record_->remove_result();
    fs::remove(file(kModelFile), ignored);
    remove_checkpoints(file(kCheckpointFolder));
    record_->write_config(config_json(config_));
  }
  record_->open_metrics(steps);
}

void RunFolder::on_step(const StepRecord& record) {
  if (record_) record_->write_line(metrics_line(record));
}

void RunFolder::finish(const RunResult& result) const {
  if (record_) record_->write_result(result_json(config_, result));
}

CheckpointPlan plan_in(const std::string& folder) {
  if (folder.empty()) return {};
  return {.folder = folder + "/" + kCheckpointFolder, .model_file = folder + "/" + kModelFile};
}

Resumed find_resumed(const std::string& path) {
  const fs::path given = fs::absolute(path).lexically_normal();
  fs::path named = given.filename().empty() ? given.parent_path() : given;
  if (!fs::exists(named)) {
    throw Error("there is no folder " + path + ": name a run's (what train --out wrote), or one of its checkpoints");
  }
  if (named.filename() == kCheckpointFolder && fs::exists(named.parent_path() / kConfigFile)) {
    named = named.parent_path();
  }
  // A run's folder may have any name.
  if (named.filename().string().starts_with("step-") && !fs::exists(named / kConfigFile)) {
    return {named.parent_path().parent_path().string(), named.string()};
  }
  const auto all = find_checkpoints((named / kCheckpointFolder).string());
  if (all.empty()) {
    throw Error("there is no checkpoint in " + path +
                "/checkpoints: train --out DIR --checkpoint-interval STEPS writes one every STEPS steps, but none "
                "after the last");
  }
  return {named.string(), all.front()};
}

}  // namespace laconic
