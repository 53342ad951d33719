#include "claims/networks/runs.h"

#include "base/suggestion.h"
#include "data/task.h"
#include "laconic/error.h"

namespace laconic::claims {
namespace {

Independent ends_at(double accuracy, double bits = Independent::kNone) { return {.end = accuracy, .bits = bits}; }

NetworkRun keeping_model(NetworkRun run) {
  run.keeps_model = true;
  return run;
}

NetworkRun within(double tolerance, NetworkRun run) {
  run.tolerance = tolerance;
  return run;
}

/// A small transformer on characters, with 4 workers.
NetworkRun on_text(NetworkRun run) {
  run.workers = 4;
  run.task = "text";
  run.model = "gpt-small";
  run.steps = 600;
  return run;
}

// clang-format off
const std::vector<NetworkRun>& rows() {
  static const std::vector<NetworkRun> table{
      keeping_model({"sgd", "sgd", {}, {87.6, 89.6, 90.6, 91.9}}),
      {"def-64", "def", {.ratio = 64}, {83.6, 86.4, 88.4, 91.1}},
      {"def-a-64", "def-a", {.ratio = 64}, {85.6, 88.9, 89.8, 90.9}},
      {"signum-8", "signum", {.ties = "random"}, ends_at(91.5)},
      {"topk-1", "topk", {.keep = 0.01}, ends_at(91.6)},
      keeping_model({"mgrawa-16", "mgrawa", {.period = 16}, ends_at(90.5)}),
      {"qsgd-4", "qsgd", {.bits = 4}, ends_at(87.0, 4)},
      {"dqsgd-workers-6", "dqsgd", {.tau = 6, .norm_source = "workers"}, ends_at(91.0, 5.24)},
      {"ef-64", "ef-rbgs", {.ratio = 64}, ends_at(10.0)},

      {"def-256", "def", {.ratio = 256}, ends_at(90.3)},
      within(2.5, {"def-1024", "def", {.ratio = 1024}, ends_at(86.3)}),
      {"def-a-256", "def-a", {.ratio = 256}, ends_at(90.1)},
      {"ef-16", "ef-rbgs", {.ratio = 16}, ends_at(10.0)},
      {"ef-256", "ef-rbgs", {.ratio = 256}, ends_at(10.0)},

      {"mgrawa-32", "mgrawa", {.period = 32}, ends_at(90.2)},
      keeping_model({"lgrawa-16", "lgrawa", {.period = 16}, ends_at(90.4)}),
      {"lgrawa-32", "lgrawa", {.period = 32}, ends_at(90.3)},
      keeping_model({"easgd-8", "easgd", {.period = 8, .pull = 0.43}, ends_at(89.1)}),
      {"easgd-16", "easgd", {.period = 16, .pull = 0.43}, ends_at(88.8)},
      keeping_model({"lsgd-8", "lsgd", {.period = 8, .pull = 0.1}, ends_at(89.9)}),
      {"lsgd-16", "lsgd", {.period = 16, .pull = 0.1}, ends_at(89.3)},

      {"qsgd-5", "qsgd", {.bits = 5}, ends_at(90.0, 5)},
      {"qsgd-6", "qsgd", {.bits = 6}, ends_at(91.3, 6)},
      {"dqsgd-workers-3", "dqsgd", {.tau = 3, .norm_source = "workers"}, ends_at(89.8, 4.75)},
      {"dqsgd-aggregate-6", "dqsgd", {.tau = 6, .norm_source = "aggregate"}, ends_at(90.2, 5.05)},
      {"dqsgd-aggregate-12", "dqsgd", {.tau = 12, .norm_source = "aggregate"}, ends_at(91.3, 6.01)},

      {"adam", "adam", {}, ends_at(91.7)},
      {"signum-7", "signum", {}, ends_at(91.3), 7},
      {"signum-8-plus", "signum", {.ties = "plus"}, ends_at(89.9)},
      {"signum-4", "signum", {.ties = "random"}, ends_at(91.9), 4},
      {"signum-4-plus", "signum", {.ties = "plus"}, ends_at(88.2), 4},
      // As many samples per step as 8 workers have.
      {"signum-4-batch-32", "signum", {.ties = "random"}, ends_at(91.9), 4, 0.0, 0, false, 32},
      {"signum-4-plus-batch-32", "signum", {.ties = "plus"}, ends_at(88.2), 4, 0.0, 0, false, 32},
      {"signum-7-2-inverting", "signum", {}, ends_at(89.2), 7, 5e-4, 2},
      {"signum-7-3-inverting", "signum", {}, ends_at(85.0), 7, 2e-4, 3},

      {"topk-0.1", "topk", {.keep = 0.001}, ends_at(90.7)},
      {"regtopk-1", "regtopk", {.keep = 0.01}},
      {"regtopk-0.1", "regtopk", {.keep = 0.001}},
      {"topk-0.02", "topk", {.keep = 0.0002}},
      {"regtopk-0.02", "regtopk", {.keep = 0.0002}},

      {"mgrawa-16-4-workers", "mgrawa", {.period = 16}, {}, 4},
      {"easgd-8-4-workers", "easgd", {.period = 8, .pull = 0.43}, {}, 4},
      {"lsgd-8-4-workers", "lsgd", {.period = 8, .pull = 0.1}, {}, 4},
      {"mgrawa-16-16-workers", "mgrawa", {.period = 16}, {}, 16},
      {"easgd-8-16-workers", "easgd", {.period = 8, .pull = 0.43}, {}, 16},
      {"lsgd-8-16-workers", "lsgd", {.period = 8, .pull = 0.1}, {}, 16},

      // Not used by a claim: compares `union = keep` with the exact sum.
      {"topk-1-union-keep", "topk", {.keep = 0.01, .union_ = "keep"}, ends_at(91.1)},
      {"topk-0.1-union-keep", "topk", {.keep = 0.001, .union_ = "keep"}, ends_at(88.3)},
      {"topk-1-16-workers", "topk", {.keep = 0.01}, ends_at(91.9), 16},
      {"topk-0.1-16-workers", "topk", {.keep = 0.001}, ends_at(91.0), 16},
      {"topk-1-union-keep-16-workers", "topk", {.keep = 0.01, .union_ = "keep"}, ends_at(91.4), 16},

      on_text({"gpt-adam", "adam"}),
      on_text({"gpt-signum", "signum"}),
      on_text({"gpt-signum-turns-4", "signum", {.turns = 4}}),
      on_text({"gpt-topk-1", "topk", {.keep = 0.01}}),
      on_text({"gpt-qsgd-6", "qsgd", {.bits = 6}}),
      on_text({"gpt-block-quant-4", "block-quant", {.bits = 4}}),
      on_text({"gpt-def-topk-2", "def-topk", {.keep = 0.02, .lambda = 0.5}}),
      on_text({"gpt-def-topk-0.2", "def-topk", {.keep = 0.002, .lambda = 1}}),
      on_text({"gpt-diloco-32", "diloco", {.period = 32}}),
  };
  return table;
}
// clang-format on

}  // namespace

std::span<const NetworkRun> run_table() { return rows(); }

const NetworkRun& run_named(std::string_view name) { return row_named(run_table(), name, "deep run"); }

RunConfig config_of(const NetworkRun& run, const Scale& scale) {
  RunConfig config = default_task_config(scale.task.empty() ? run.task : scale.task, run.method);
  config.task.model = scale.model.empty() ? run.model : scale.model;
  if (task_row(config.task.name).takes_text_file) config.task.text = scale.text;
  config.task.device = scale.device;
  config.task.batch = run.batch;
  config.task.sampling = "replacement";
  config.options = run.options;
  config.task.train_samples = scale.train_samples;
  config.task.test_samples = scale.test_samples;
  config.workers = scale.workers > 0 ? scale.workers : run.workers;
  config.adversaries = run.adversaries;
  if (run.learning_rate > 0.0) config.learning_rate = run.learning_rate;
  config.steps = scale.steps > 0 ? scale.steps : run.steps;
  config.seed = scale.seed;
  set_default_schedule(config);
  config.eval_interval = std::max(1U, config.steps / 6);
  config.checkpoint_interval = config.eval_interval;
  config.nonfinite = NonfinitePolicy::skip;
  config.timeout = 600.0;
  return config;
}

}  // namespace laconic::claims
