#include "records/writer.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/whole_file.h"
#include "laconic/error.h"
#include "records/config_file.h"
#include "records/file_names.h"
#include "records/formats.h"
#include "records/parsed_text.h"

namespace laconic {

namespace fs = std::filesystem;

namespace {

/// The lines of steps that the run that goes on has behind it; a line that was cut ends them.
std::string kept_lines(const std::string& path, std::uint32_t steps) {
  std::ifstream input(path, std::ios::binary);
  std::string kept;
  for (std::string line; std::getline(input, line);) {
    const nlohmann::json json = parse_json(line, path);
    const auto step = json.is_object() ? json.find("step") : json.end();
    if (step == json.end() || !step->is_number_unsigned() || *step > steps) break;
    kept.append(line).append("\n");
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, std::uint32_t steps) : path_(path) {
  if (steps > 0) write_whole_file(path, kept_lines(path, steps));
  output_.open(path, std::ios::binary | (steps > 0 ? std::ios::app : std::ios::trunc));
  if (!output_) throw Error("cannot write " + path + ": is there such a folder, and may you write there?");
}

void MetricsFile::on_step(const StepRecord& record) {
  output_ << metrics_line(record) << '\n' << std::flush;
  if (!output_) throw Error("cannot write " + path_ + ": is the disk full?");
}

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
    for (const char* name : {kResultFile, kModelFile}) fs::remove(file(name), ignored);
    remove_checkpoints(file(kCheckpointFolder));
    write_whole_file(file(kConfigFile), config_json(config_));
  }
  metrics_.emplace(file(kMetricsFile), steps);
}

void RunFolder::on_step(const StepRecord& record) {
  if (metrics_) metrics_->on_step(record);
}

void RunFolder::finish(const RunResult& result) const {
  if (!path_.empty()) write_whole_file(file(kResultFile), result_json(config_, result));
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
                "/checkpoints: train writes them with --out DIR --checkpoint-interval STEPS");
  }
  return {named.string(), all.front()};
}

}  // namespace laconic
