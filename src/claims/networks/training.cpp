#include "claims/networks/training.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>

#include "claims/networks/record_files.h"
#include "data/task.h"
#include "laconic/error.h"
#include "records/file_names.h"
#include "records/flatness.h"
#include "records/writer.h"
#include "torch/train/device.h"
#include "torch/train/task_workload.h"

namespace laconic::claims {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Forwards a run to its folder and to the board that watchers see.
class Recorder final : public Observer {
 public:
  Recorder(RunFolder& folder, std::function<void(const StepRecord&)> tell) : folder_(folder), tell_(std::move(tell)) {}
  void on_start(std::uint32_t steps) override { folder_.on_start(steps); }
  void on_step(const StepRecord& record) override {
    folder_.on_step(record);
    tell_(record);
  }

 private:
  RunFolder& folder_;
  std::function<void(const StepRecord&)> tell_;
};

/// Where a cut run goes on; an empty `resume` begins anew.
CheckpointPlan plan_for(const Record& record) {
  CheckpointPlan plan{.folder = (record.folder / kCheckpointFolder).string()};
  if (!is_begun(record)) return plan;
  for (const std::string& checkpoint : find_checkpoints(plan.folder)) {
    try {
      require_sound_checkpoint(checkpoint, record.config.workers);
      plan.resume = checkpoint;
      return plan;
    } catch (const Error&) {
      continue;  // damaged: the one before
    }
  }
  return plan;
}

void make_run(const Record& record, const std::string& data, std::function<void(const StepRecord&)> tell) {
  const auto workload = task_workload(record.config, data);
  const CheckpointPlan plan = plan_for(record);
  const Earlier earlier = plan.resume.empty() ? Earlier::overwritten : Earlier::resumed;
  RunFolder folder(record.folder.string(), record.config, earlier);
  if (plan.resume.empty()) {
    for (const char* file : {kPointFile, kFlatnessFile}) fs::remove(record.folder / file);
  }
  Recorder recorder(folder, std::move(tell));
  const RunResult result = run_threads(record.config, *workload, &recorder, plan).front();
  if (record.run->keeps_model) write_point(record.folder.string(), result.model);
  folder.finish(result);
  fs::remove_all(plan.folder);
}

/// Jobs side by side, and what is told of them.
class Foreman {
 public:
  Foreman(std::vector<Record> records, const RunOptions& options) : records_(std::move(records)), options_(options) {
    progress_.total = records_.size();
  }

  std::vector<NetworkResult> work() {
    std::vector<std::thread> threads;
    try {
      for (int i = 1; i < options_.jobs; ++i) threads.emplace_back([this] { take_jobs(); });
    } catch (const std::system_error&) {
      // The system has no more threads: those that started do all the jobs.
    }
    take_jobs();
    for (std::thread& thread : threads) thread.join();
    if (failed_) std::rethrow_exception(failed_);
    std::vector<NetworkResult> results;
    for (const Record& record : records_) {
      if (is_whole(record)) results.push_back(read_result(record));
    }
    return results;
  }

 private:
  bool time_is_up() const {
    return options_.seconds > 0.0 && std::chrono::duration<double>(Clock::now() - begun_).count() >= options_.seconds;
  }

  void take_jobs() {
    for (std::size_t i = next_++; i < records_.size(); i = next_++) {
      try {
        do_job(records_[i]);
      } catch (const std::exception& error) {
        give_up(records_[i], error);
      }
    }
  }

  void do_job(const Record& record) {
    const bool there = is_whole(record);
    if (!there) {
      if (time_is_up()) return;
      begin(record);
      make_run(record, options_.data_folder, [&](const StepRecord& step) { tell(record, step); });
    }
    end(record, there);
  }

  /// The others go on: hours of them may be ahead.
  void give_up(const Record& record, const std::exception& error) {
    const std::lock_guard lock(mutex_);
    if (const auto active = find(record); active != progress_.active.end()) progress_.active.erase(active);
    if (options_.failed) {
      options_.failed(std::string(record.run->name) + " seed " + std::to_string(record.config.seed), error.what());
    } else if (!failed_) {
      failed_ = std::current_exception();
    }
  }

  void begin(const Record& record) {
    const std::lock_guard lock(mutex_);
    progress_.active.push_back({record.run->name, record.config.seed, 0, record.config.steps, Independent::kNone});
    if (options_.watch) options_.watch(progress_, nullptr);
  }

  void tell(const Record& record, const StepRecord& step) {
    const std::lock_guard lock(mutex_);
    Progress::Active& active = *find(record);
    active.step = step.step;
    if (step.accuracy) active.accuracy = 100.0 * *step.accuracy;
    if (options_.watch && (step.accuracy || step.step % 10 == 0)) options_.watch(progress_, nullptr);
  }

  void end(const Record& record, bool was_there) {
    const NetworkResult result = read_result(record);
    const std::lock_guard lock(mutex_);
    if (!was_there) progress_.active.erase(find(record));
    ++progress_.finished;
    if (options_.watch) options_.watch(progress_, was_there ? nullptr : &result);
  }

  std::vector<Progress::Active>::iterator find(const Record& record) {
    return std::find_if(progress_.active.begin(), progress_.active.end(), [&](const Progress::Active& active) {
      return active.run == record.run->name && active.seed == record.config.seed;
    });
  }

  std::vector<Record> records_;
  const RunOptions& options_;
  Clock::time_point begun_ = Clock::now();
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  Progress progress_;
  std::exception_ptr failed_;
};

}  // namespace

std::vector<NetworkResult> make_runs(const std::vector<std::string>& names, const RunOptions& options) {
  auto records = records_of(names, options);
  for (const Record& record : records) require_valid(record.config);
  const bool all_there = std::all_of(records.begin(), records.end(), is_whole);
  if (!all_there) {
    require_training_device(options.scale.device);
    // Reading each data set once tells early whether it is there.
    std::set<std::string> tasks;
    for (const Record& record : records) {
      const TaskConfig& task = record.config.task;
      if (!tasks.insert(task.name).second) continue;
      make_task(task.name, {.data_folder = options.data_folder, .text_file = task.text});
    }
  }
  return Foreman(std::move(records), options).work();
}

}  // namespace laconic::claims
