#include <algorithm>
#include <cmath>
#include <numbers>

#include "data/task.h"
#include "experiment/derive.h"
#include "methods/optimizer.h"
#include "methods/table.h"

namespace laconic {
namespace {

TaskTraining training_on(std::string_view task) { return task.empty() ? TaskTraining{} : task_row(task).training; }

}  // namespace

RunConfig default_config(std::string_view problem, std::string_view method) {
  const ProblemRow& row = problem_row(problem);
  const MethodRow& chosen = method_row(method);
  RunConfig config;
  config.method = chosen.name;
  config.optimizer = optimizer_of(chosen, {});
  config.problem = row.name;
  config.workers = row.workers;
  config.steps = row.steps;
  config.learning_rate = chosen.traits.usual.problem_rate > 0.0 ? chosen.traits.usual.problem_rate : row.learning_rate;
  return config;
}

RunConfig default_task_config(std::string_view task, std::string_view method) {
  RunConfig config;
  config.task.name = task;
  const MethodRow& chosen = method_row(method);
  const UsualSettings& usual = chosen.traits.usual;
  const TaskTraining training = training_on(task);
  const TaskTraining of_sgd;
  const bool any_optimizer = usual.network_rate == 0.0;
  config.method = chosen.name;
  config.steps = 500;
  config.eval_interval = 50;
  config.clip = training.clip;
  config.learning_rate = any_optimizer ? training.learning_rate : of_sgd.learning_rate;
  if (usual.network_rate > 0.0) config.learning_rate = usual.network_rate;
  config.optimizer = usual_optimizer(config, any_optimizer ? training.optimizer : of_sgd.optimizer);
  return config;
}

OptimizerOptions usual_optimizer(const RunConfig& config, const std::string& name) {
  const MethodRow& row = method_row(config.method);
  if (optimizer_kind(name) != OptimizerKind::sgd) return {.name = name};
  return optimizer_of(row, {.momentum = row.traits.usual.momentum, .nesterov = models_may_differ(config)});
}

double usual_rate(OptimizerKind kind) {
  if (!is_adam(kind)) return TaskTraining{}.learning_rate;
  const auto row = std::ranges::find_if(method_table(), [](const MethodRow& each) {
    return each.fixes_optimizer() && is_adam(optimizer_kind(each.traits.optimizer));
  });
  return row->traits.usual.network_rate;
}

std::vector<LearningRateDrop> default_task_schedule(std::uint32_t steps) {
  return {{steps / 2, 0.1}, {steps / 4 * 3 + steps % 4 * 3 / 4, 0.1}};
}

void set_default_schedule(RunConfig& config) {
  const bool cosine = training_on(config.task.name).cosine;
  config.cosine = cosine;
  config.schedule = cosine ? std::vector<LearningRateDrop>{} : default_task_schedule(config.steps);
  config.warmup = usual_warmup(config);
}

std::uint32_t usual_warmup(const RunConfig& config) { return config.cosine ? config.steps / 10 : 0; }

double learning_rate_at(const RunConfig& config, std::uint32_t step) {
  double rate = config.learning_rate;
  if (step < config.warmup) {
    rate *= (step + 1.0) / (config.warmup + 1.0);
  } else if (config.cosine && config.steps > config.warmup) {
    const double share = (step - config.warmup) / static_cast<double>(config.steps - config.warmup);
    const double height = 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, share)));
    rate *= kCosineEnd + (1.0 - kCosineEnd) * height;
  }
  for (const LearningRateDrop& drop : config.schedule) {
    if (step >= drop.step) rate *= drop.factor;
  }
  return rate;
}

bool is_asynchronous(const RunConfig& config) { return config.options.pace == "async"; }

bool models_may_differ(const RunConfig& config) {
  return method_row(config.method).traits.meets_in_rounds;
}

bool workers_start_apart(const RunConfig& config) {
  return method_row(config.method).traits.common == Common::centre;
}

MethodOptions derived_options(const RunConfig& config, const Problem& problem) {
  return derived_options(config, *problem_workload(problem));
}

MethodOptions derived_options(const RunConfig& config, const Workload& workload) {
  const MethodRow& row = method_row(config.method);
  MethodOptions options = config.options;
  const auto fill = [&](const char* name, MethodOptions::Number MethodOptions::*member, std::optional<double> value) {
    const Parameter* parameter = row.find_parameter(name);
    if (parameter == nullptr || options.*member || !parameter->counts_with(options)) return;
    options.*member = value;
  };
  // Rounds in lockstep end with the loop, whatever their number of steps.
  if (is_asynchronous(config) || !row.has_parameter("pace")) {
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
