#include "run_folder.h"

#include <filesystem>

#include "experiment/whole_file.h"
#include "laconic/error.h"
#include "output_file.h"

namespace laconic::tools {

namespace fs = std::filesystem;

RunFolder::RunFolder(std::string path, bool overwrite) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::error_code failed;
  for (const char* name : {"config.json", "metrics.jsonl", "result.json"}) {
    if (!overwrite && fs::exists(file(name), failed)) {
      throw Error(path_ + " holds a run already (" + name + "): name another folder, or add --overwrite");
    }
  }
  fs::create_directories(path_, failed);
  if (failed) {
    throw Error("cannot make the folder " + path_ + " (" + failed.message() +
                "): name one where you may write, such as runs/first");
  }
  require_writable(file("config.json"));
  for (const char* name : {"config.json", "metrics.jsonl", "result.json", "model.safetensors"}) {
    remove_cut_writes(file(name));
  }
}

std::unique_ptr<MetricsFile> RunFolder::begin(const RunConfig& config) const {
  if (path_.empty()) return nullptr;
  std::error_code ignored;
  // An earlier run's, so that nothing goes on from them.
  for (const char* name : {"result.json", "model.safetensors"}) fs::remove(file(name), ignored);
  for (const std::string& each : find_checkpoints(file("checkpoints"))) fs::remove_all(each, ignored);
  write_file(file("config.json"), config_json(config));
  return std::make_unique<MetricsFile>(file("metrics.jsonl"));
}

std::unique_ptr<MetricsFile> RunFolder::go_on(std::uint32_t steps) const {
  return path_.empty() ? nullptr : std::make_unique<MetricsFile>(file("metrics.jsonl"), steps);
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

void RunFolder::finish(const RunConfig& config, const RunResult& result) const {
  if (!path_.empty()) write_file(file("result.json"), result_json(config, result));
}

}  // namespace laconic::tools
