#include "torch/deep/records.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "data/task.h"
#include "experiment/files.h"
#include "experiment/run_folder.h"
#include "experiment/whole_file.h"
#include "laconic/error.h"
#include "torch/task_workload.h"

namespace laconic::deep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

/// The tested model's float32 values in the order of its tensors.
constexpr const char* kModelFile = "model.f32";

/// One run of one seed, and where its record is.
struct Job {
  const DeepRun* run;
  RunConfig config;
  fs::path folder;
};

std::vector<Job> jobs_of(const std::vector<std::string>& names, const RunOptions& options) {
  std::vector<Job> jobs;
  for (int i = 0; i < options.seeds; ++i) {
    Scale scale = options.scale;
    scale.seed += static_cast<std::uint64_t>(i);
    for (const std::string& name : names) {
      const DeepRun& run = run_named(name);
      jobs.push_back({&run, config_of(run, scale), fs::path(options.out) / run.name / std::to_string(scale.seed)});
    }
  }
  return jobs;
}

bool same_run(const RunConfig& config, const fs::path& file) {
  const auto text = [](const RunConfig& each) {
    std::string all;
    for (const ConfigEntry& entry : entries_of(each)) all += entry.section + '.' + entry.key + '=' + entry.value + '\n';
    return all;
  };
  try {
    return text(config_from(read_config_file(file.string()))) == text(config);
  } catch (const Error&) {
    return false;  // damaged, or of a version that had other settings
  }
}

bool is_begun(const Job& job) {
  return fs::exists(job.folder / "config.json") && same_run(job.config, job.folder / "config.json");
}

bool is_whole(const Job& job) { return fs::exists(job.folder / "result.json") && is_begun(job); }

double wall_seconds_in(const fs::path& file) {
  std::ifstream input(file);
  const Json json = Json::parse(input, nullptr, false);
  return json.is_object() ? json.value("wall_seconds", 0.0) : 0.0;
}

DeepResult read_result(const Job& job) {
  const RecordedRun record = read_run(job.folder.string());
  DeepResult result{.run = job.run->name, .seed = job.config.seed, .steps = job.config.steps};
  for (const RecordedEvaluation& evaluation : record.evaluations) {
    result.accuracies[evaluation.step] = 100.0 * evaluation.accuracy;
  }
  result.accuracy = 100.0 * record.end.accuracy;
  result.loss = record.end.loss;
  result.mean_bits = record.end.mean_bits;
  result.rounds = record.end.rounds;
  result.sent_bytes_per_step = record.end.sent_bytes_per_step;
  result.wall_seconds = wall_seconds_in(job.folder / "result.json");
  return result;
}

/// Metrics on disk, and the board that watchers see.
class Recorder final : public Observer {
 public:
  Recorder(const fs::path& file, std::uint32_t steps, std::function<void(const StepRecord&)> tell)
      : file_(file.string(), steps), tell_(std::move(tell)) {}
  void on_step(const StepRecord& record) override {
    file_.on_step(record);
    tell_(record);
  }

 private:
  MetricsFile file_;
  std::function<void(const StepRecord&)> tell_;
};

/// Where a cut run goes on; an empty `resume` begins anew.
CheckpointPlan plan_for(const Job& job) {
  CheckpointPlan plan{.folder = (job.folder / "checkpoints").string()};
  if (!is_begun(job)) return plan;
  for (const std::string& checkpoint : find_checkpoints(plan.folder)) {
    try {
      require_sound_checkpoint(checkpoint, job.config.workers);
      plan.resume = checkpoint;
      return plan;
    } catch (const Error&) {
      continue;  // damaged: the one before
    }
  }
  return plan;
}

void make_run(const Job& job, const std::string& data, std::function<void(const StepRecord&)> tell) {
  const auto workload = task_workload(job.config, data);
  fs::create_directories(job.folder);
  const CheckpointPlan plan = plan_for(job);
  if (plan.resume.empty()) {
    fs::remove(job.folder / "result.json");
    fs::remove_all(plan.folder);
    write_whole_file((job.folder / "config.json").string(), config_json(job.config));
  }
  const std::uint32_t made = plan.resume.empty() ? 0 : checkpoint_steps(plan.resume);
  Recorder recorder(job.folder / "metrics.jsonl", made, std::move(tell));
  const RunResult result = run_threads(job.config, *workload, &recorder, plan).front();
  if (job.run->keeps_model) {
    write_whole_file((job.folder / kModelFile).string(), as_bytes(View<const float>(result.model)));
  }
  write_whole_file((job.folder / "result.json").string(), result_json(job.config, result));
  fs::remove_all(plan.folder);
}

/// Jobs side by side, and what is told of them.
class Foreman {
 public:
  Foreman(std::vector<Job> jobs, const RunOptions& options) : jobs_(std::move(jobs)), options_(options) {
    progress_.total = jobs_.size();
  }

  std::vector<DeepResult> work() {
    std::vector<std::thread> threads;
    for (int i = 1; i < options_.jobs; ++i) threads.emplace_back([this] { take_jobs(); });
    take_jobs();
    for (std::thread& thread : threads) thread.join();
    if (failed_) std::rethrow_exception(failed_);
    std::vector<DeepResult> results;
    for (const Job& job : jobs_) {
      if (is_whole(job)) results.push_back(read_result(job));
    }
    return results;
  }

 private:
  bool time_is_up() const {
    return options_.seconds > 0.0 && std::chrono::duration<double>(Clock::now() - begun_).count() >= options_.seconds;
  }

  void take_jobs() {
    for (std::size_t i = next_++; i < jobs_.size(); i = next_++) {
      try {
        do_job(jobs_[i]);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failed_) failed_ = std::current_exception();
        next_ = jobs_.size();
      }
    }
  }

  void do_job(const Job& job) {
    const bool there = is_whole(job);
    if (!there) {
      if (time_is_up()) return;
      begin(job);
      make_run(job, options_.data_folder, [&](const StepRecord& record) { tell(job, record); });
    }
    end(job, there);
  }

  void begin(const Job& job) {
    const std::lock_guard lock(mutex_);
    progress_.active.push_back({job.run->name, job.config.seed, 0, job.config.steps, Independent::kNone});
    if (options_.watch) options_.watch(progress_, nullptr);
  }

  void tell(const Job& job, const StepRecord& record) {
    const std::lock_guard lock(mutex_);
    Progress::Active& active = *find(job);
    active.step = record.step;
    if (record.accuracy) active.accuracy = 100.0 * *record.accuracy;
    if (options_.watch && (record.accuracy || record.step % 10 == 0)) options_.watch(progress_, nullptr);
  }

  void end(const Job& job, bool was_there) {
    const DeepResult result = read_result(job);
    const std::lock_guard lock(mutex_);
    if (!was_there) progress_.active.erase(find(job));
    ++progress_.finished;
    if (options_.watch) options_.watch(progress_, was_there ? nullptr : &result);
  }

  std::vector<Progress::Active>::iterator find(const Job& job) {
    return std::find_if(progress_.active.begin(), progress_.active.end(), [&](const Progress::Active& active) {
      return active.run == job.run->name && active.seed == job.config.seed;
    });
  }

  std::vector<Job> jobs_;
  const RunOptions& options_;
  Clock::time_point begun_ = Clock::now();
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  Progress progress_;
  std::exception_ptr failed_;
};

}  // namespace

double DeepResult::after(double share) const {
  const auto found = accuracies.find(static_cast<std::uint64_t>(std::llround(share * static_cast<double>(steps))));
  return found == accuracies.end() ? Independent::kNone : found->second;
}

std::vector<DeepResult> make_runs(const std::vector<std::string>& names, const RunOptions& options) {
  auto jobs = jobs_of(names, options);
  const bool all_there = std::all_of(jobs.begin(), jobs.end(), is_whole);
  // Reading the data set once tells early whether it is there.
  if (!all_there) make_task(options.scale.task, {.data_folder = options.data_folder});
  return Foreman(std::move(jobs), options).work();
}

std::vector<DeepResult> read_results(const std::vector<std::string>& names, const RunOptions& options) {
  std::vector<DeepResult> results;
  for (const Job& job : jobs_of(names, options)) {
    if (is_whole(job)) results.push_back(read_result(job));
  }
  return results;
}

}  // namespace laconic::deep
