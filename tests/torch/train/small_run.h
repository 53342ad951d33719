#pragma once

#include <string>
#include <vector>

#include "methods/table.h"
#include "torch/train/task_workload.h"

namespace laconic::test {

/// A run on the drawn digits that takes less than a second, with several rounds if the method has rounds.
inline RunConfig small_run(const std::string& method, const std::string& model = "mlp") {
  RunConfig config = default_task_config("digits", method);
  config.task.model = model;
  config.task.batch = 8;
  config.task.train_samples = 240;
  config.task.test_samples = 100;
  config.workers = 3;
  config.steps = 12;
  config.eval_interval = 0;
  if (method_row(method).has_parameter("period")) config.options.period = 4;
  return config;
}

inline std::vector<RunResult> run(const RunConfig& config, const CheckpointPlan& plan = {}) {
  return run_threads(config, *task_workload(config, ""), nullptr, plan);
}

}  // namespace laconic::test
