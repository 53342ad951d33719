#include "workloads.h"

#include <iostream>

#include "data/task.h"
#include "experiment/derive.h"
#include "laconic/error.h"
#if LACONIC_TORCH
#include "torch/train/task_workload.h"
#endif

namespace laconic::tools {

std::unique_ptr<Workload> make_workload(const RunConfig& config, const std::string& data_folder) {
  if (config.task.name.empty()) {
    return problem_workload(make_problem(config.problem, config.problem_settings, config.workers, config.seed));
  }
#if LACONIC_TORCH
  return task_workload(config, data_folder);
#else
  throw InvalidConfig("this laconic was built without PyTorch, which trains networks on " + config.task.name +
                      (data_folder.empty() ? "" : " in " + data_folder) +
                      ": run scripts/setup and build again, or use --problem");
#endif
}

RunConfig completed(RunConfig config, const Workload& workload) {
  if (!config.task.name.empty()) config.task.model = model_for(config.task.name, config.task.model);
  config.options = derived_options(config, workload);
  return config;
}

void tell_note(const Workload& workload) {
  if (const std::string note = workload.note(); !note.empty()) std::cerr << "Note: " << note << std::endl;
}

std::string subject_of(const RunConfig& config) {
  if (config.task.name.empty()) return config.problem;
  return config.task.name + " with " + model_for(config.task.name, config.task.model);
}

std::string setting_of(const RunConfig& config) {
  const bool elsewhere = !config.task.name.empty() && config.task.device != TaskConfig().device;
  return subject_of(config) + (elsewhere ? " on " + config.task.device : "") + ", " + std::to_string(config.workers) +
         (config.workers == 1 ? " worker, " : " workers, ") + std::to_string(config.steps) + " steps, seed " +
         std::to_string(config.seed);
}

}  // namespace laconic::tools
