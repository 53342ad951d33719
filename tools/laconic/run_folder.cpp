#include "run_folder.h"

#include <filesystem>

#include "experiment/whole_file.h"
#include "laconic/error.h"
#include "output_file.h"

namespace laconic::tools {

namespace fs = std::filesystem;

RunFolder::RunFolder(std::string path, RunConfig config, Earlier earlier)
    : path_(std::move(path)), config_(std::move(config)), earlier_(earlier) {
  if (path_.empty()) return;
  std::error_code failed;
  fs::create_directories(path_, failed);
  if (failed) {
    throw Error("cannot make the folder " + path_ + " (" + failed.message() +
                "): name one where you may write, such as runs/first");
  }
  require_place();  // before the lock's file is made: nothing is written into a folder that is refused
  lock_.emplace(path_);
  require_place();  // another process may have begun a run there meanwhile
  require_writable(file("config.json"));
  if (!is_config_of_run(file("config.json"))) return;
  for (const char* name : {"config.json", "metrics.jsonl", "result.json", "model.safetensors"}) {
    remove_cut_writes(file(name));
  }
}

/// Files of these names may be anybody's: only a folder with a config.json of ours is a run.
void RunFolder::require_place() const {
  if (earlier_ == Earlier::resumed) return;
  const bool ours = is_config_of_run(file("config.json"));
  if (ours && earlier_ == Earlier::overwritten) return;
  for (const char* name : {"config.json", "metrics.jsonl", "result.json", "model.safetensors", "checkpoints"}) {
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
    for (const char* name : {"result.json", "model.safetensors"}) fs::remove(file(name), ignored);
    remove_checkpoints(file("checkpoints"));
    write_file(file("config.json"), config_json(config_));
  }
  metrics_.emplace(file("metrics.jsonl"), steps);
}

void RunFolder::on_step(const StepRecord& record) {
  if (metrics_) metrics_->on_step(record);
}

void require_place_for_checkpoints(const RunConfig& config, const std::string& out) {
  if (config.checkpoint_interval == 0 || !out.empty()) return;
  throw InvalidConfig("--checkpoint-interval without --out: name the run's folder, checkpoints go into it");
}

CheckpointPlan plan_in(const std::string& folder) {
  if (folder.empty()) return {};
  return {.folder = folder + "/checkpoints", .model_file = folder + "/model.safetensors"};
}

Resumed find_resumed(const std::string& path) {
  const fs::path given = fs::absolute(path).lexically_normal();
  fs::path named = given.filename().empty() ? given.parent_path() : given;
  if (!fs::exists(named)) {
    throw Error("there is no folder " + path + ": name a run's (what train --out wrote), or one of its checkpoints");
  }
  if (named.filename() == "checkpoints" && fs::exists(named.parent_path() / "config.json")) named = named.parent_path();
  // A run's folder may have any name.
  if (named.filename().string().starts_with("step-") && !fs::exists(named / "config.json")) {
    return {named.parent_path().parent_path().string(), named.string()};
  }
  const auto all = find_checkpoints((named / "checkpoints").string());
  if (all.empty()) {
    throw Error("there is no checkpoint in " + path +
                "/checkpoints: train writes them with --out DIR --checkpoint-interval STEPS");
  }
  return {named.string(), all.front()};
}

void RunFolder::finish(const RunResult& result) const {
  if (!path_.empty()) write_file(file("result.json"), result_json(config_, result));
}

}  // namespace laconic::tools
