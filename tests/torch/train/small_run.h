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

/// A run of the small transformer on the text that the program writes, of some seconds.
inline RunConfig small_text_run(const std::string& method) {
  RunConfig config = default_task_config("text", method);
  config.task.batch = 2;
  config.task.test_samples = 20;
  config.workers = 2;
  config.steps = 8;
  config.eval_interval = 0;
  set_default_schedule(config);
  return config;
}

inline std::vector<RunResult> run(const RunConfig& config, const CheckpointPlan& plan = {}) {
  return run_threads(config, *task_workload(config, ""), nullptr, plan);
}

}  // namespace laconic::test
