#include <cmath>

#include "experiment/derive.h"
#include "experiment/invalid_setting.h"
#include "laconic/threads.h"
#include "methods/optimizer.h"
#include "methods/table.h"

namespace laconic {
namespace {

const Parameter* find_parameter(const MethodRow& row, std::string_view name) {
  for (const Parameter& parameter : row.parameters) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

bool has_parameter(const MethodRow& row, std::string_view name) { return find_parameter(row, name) != nullptr; }

/// Throws InvalidSetting for a key of its section. `rule` says what the value must be.
struct Refusal {
  const char* section;

  void operator()(const std::string& key, const std::string& rule, const std::string& value,
                  const std::string& remedy) const {
    throw InvalidSetting(section, key, key + " " + rule + ", got " + value + ": " + remedy);
  }
};

void require_valid(const TaskConfig& task) {
  const Refusal refuse{"task"};
  if (task.batch < 1 || task.batch > 65536) {
    refuse("batch", "must be in 1..65536", std::to_string(task.batch),
           "it is the number of samples per worker and step");
  }
  if (task.scoring_batch > 65536) {
    refuse("scoring_batch", "must be in 0..65536", std::to_string(task.scoring_batch),
           "it scores the models of a round");
  }
  if (task.sampling != "epochs" && task.sampling != "replacement") {
    refuse("sampling", "must be epochs or replacement", '"' + task.sampling + '"',
           "epochs takes each sample once per epoch");
  }
  if (!(task.skew >= 0.0 && task.skew <= 1.0)) {
    refuse("skew", "must be in [0, 1]", std::to_string(task.skew), "0 deals samples alike, 1 sorts them by label");
  }
  if (task.torch_threads < 1 || task.torch_threads > 1024) {
    refuse("torch_threads", "must be in 1..1024", std::to_string(task.torch_threads),
           "1 gives the same bits everywhere");
  }
  if (task.device != "cpu") {
    refuse("device", "must be cpu", '"' + task.device + '"', "networks run on the processor as yet");
  }
}

}  // namespace

RunConfig default_config(std::string_view problem, std::string_view method) {
  const ProblemRow& row = problem_row(problem);
  const MethodRow& chosen = method_row(method);
  RunConfig config;
  config.method = chosen.name;
  config.problem = row.name;
  config.workers = row.workers;
  config.steps = row.steps;
  config.learning_rate = chosen.rates.problem > 0.0 ? chosen.rates.problem : row.learning_rate;
  return config;
}

RunConfig default_task_config(std::string_view task, std::string_view method) {
  RunConfig config;
  config.task.name = task;
  const MethodRow& chosen = method_row(method);
  config.method = chosen.name;
  config.steps = 500;
  config.eval_interval = 50;
  config.learning_rate = chosen.rates.network > 0.0 ? chosen.rates.network : 0.05;
  config.optimizer.momentum = 0.9;
  config.optimizer.nesterov = models_may_differ(config);
  if (config.method == "adam") config.optimizer = {.name = "adam"};
  if (config.method == "signsgd" || config.method == "signum") config.optimizer.momentum = 0.0;
  return config;
}

std::vector<LearningRateDrop> default_task_schedule(std::uint32_t steps) {
  return {{steps / 2, 0.1}, {steps / 4 * 3 + steps % 4 * 3 / 4, 0.1}};
}

void require_valid(const RunConfig& config) {
  method_row(config.method);
  Optimizer(optimizer_of(config.method, config.optimizer));  // refuses what is out of range
  if (!config.task.name.empty()) require_valid(config.task);
  const Refusal refuse{"run"};
  if (config.workers < 1 || config.workers > kMostRanks) {
    refuse("workers", "must be in 1.." + std::to_string(kMostRanks), std::to_string(config.workers),
           "each is a thread or a process");
  }
  if (!(config.learning_rate >= 0.0 && std::isfinite(config.learning_rate))) {
    refuse("learning_rate", "must be 0 or more and finite", std::to_string(config.learning_rate), "try 0.01");
  }
  for (const LearningRateDrop& drop : config.schedule) {
    if (!(drop.factor >= 0.0 && std::isfinite(drop.factor))) {
      refuse("schedule", "must have factors that are 0 or more and finite", std::to_string(drop.factor),
             "a factor multiplies the learning rate from its step on");
    }
  }
  if (config.adversaries < 0 || config.adversaries > config.workers) {
    refuse("adversaries", "must be in 0.." + std::to_string(config.workers) + ", the number of workers",
           std::to_string(config.adversaries), "so many of the workers invert their gradients");
  }
  if (!(config.compute_seconds >= 0.0 && config.compute_seconds <= 3600.0)) {
    refuse("compute_seconds", "must be in [0, 3600]", std::to_string(config.compute_seconds),
           "it is the least time of one gradient");
  }
  if (!config.slowdown.empty() && config.slowdown.size() != static_cast<std::size_t>(config.workers)) {
    refuse("slowdown", "must have one number per worker", std::to_string(config.slowdown.size()) + " of them",
           "give " + std::to_string(config.workers) + ", or none");
  }
  for (const double times : config.slowdown) {
    if (!(times >= 0.0 && times <= 1e6)) {
      refuse("slowdown", "must be in [0, 1e6] for every worker", std::to_string(times),
             "4 makes the worker's gradients take 4 times as long");
    }
  }
  if (!config.slowdown.empty() && config.compute_seconds == 0.0) {
    throw InvalidSetting("run", "slowdown",
                         "slowdown without compute_seconds slows nothing: say how long a gradient takes");
  }
  if (!(config.timeout > 0.0 && config.timeout <= 86400.0)) {
    refuse("timeout", "must be in (0, 86400] seconds", std::to_string(config.timeout),
           "after so long a rank that says nothing is given up");
  }
  if (config.threads < 0 || config.threads > 1024) {
    refuse("threads", "must be in 0..1024", std::to_string(config.threads), "0 means one per core");
  }
}

double learning_rate_at(const RunConfig& config, std::uint32_t step) {
  double rate = config.learning_rate;
  for (const LearningRateDrop& drop : config.schedule) {
    if (step >= drop.step) rate *= drop.factor;
  }
  return rate;
}

bool is_asynchronous(const RunConfig& config) { return config.options.pace == "async"; }

bool models_may_differ(const RunConfig& config) {
  const MethodRow& row = method_row(config.method);
  return row.face == Face::model && has_parameter(row, "period");
}

MethodOptions derived_options(const RunConfig& config, const Problem& problem) {
  return derived_options(config, *problem_workload(problem));
}

MethodOptions derived_options(const RunConfig& config, const Workload& workload) {
  const MethodRow& row = method_row(config.method);
  MethodOptions options = config.options;
  const auto fill = [&](const char* name, MethodOptions::Number MethodOptions::*member, std::optional<double> value) {
    const Parameter* parameter = find_parameter(row, name);
    if (parameter == nullptr || options.*member || !parameter->counts_with(options)) return;
    options.*member = value;
  };
  // Rounds in lockstep end with the loop, whatever their number of steps.
  if (is_asynchronous(config) || !has_parameter(row, "pace")) {
    fill("total_steps", &MethodOptions::total_steps, std::max(1.0, static_cast<double>(config.steps)));
  }
  if (config.learning_rate > 0.0) fill("step_size", &MethodOptions::step_size, config.learning_rate);
  fill("smoothness", &MethodOptions::smoothness, workload.smoothness());
  fill("convexity", &MethodOptions::convexity, workload.convexity());
  return options;
}

std::uint32_t round_period(const RunConfig& config) {
  const MethodRow& row = method_row(config.method);
  if (!models_may_differ(config)) return 0;
  return static_cast<std::uint32_t>(Settings(row.name, row.parameters, config.options).number("period"));
}

}  // namespace laconic
