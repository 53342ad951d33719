#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "experiment/checkpoint.h"
#include "experiment/workload.h"
#include "laconic/communicator.h"
#include "laconic/methods.h"
#include "problems/problem.h"

// How to run a method on a problem:
//
//   RunConfig config;
//   config.problem = "linear-regression";
//   config.method = "topk";
//   config.options.keep = 0.6;
//   config.workers = 20; config.steps = 2500; config.learning_rate = 0.01; config.seed = 3;
//   const RunResult result = run_threads(config).front();          // by rank; the run's figures are the same on all
//   std::log10(result.distance.value() * result.distance.value());
//
// For a problem that the table and its settings cannot express (problems/quadratic.h), the caller makes the problem and
// calls run_threads(config, *problem). An Observer on rank 0 receives a record of each step.

namespace laconic {

/// From `step` on, the learning rate is multiplied by `factor`.
struct LearningRateDrop {
  std::uint32_t step = 0;
  double factor = 1.0;
};

// What a setting means and which values it may have stands in its row of the table (run_settings.cpp); here are only
// the defaults, and what the row does not say.

/// A network on a data set, in place of a problem.
struct TaskConfig {
  std::string name{};   ///< empty: the run is on a problem
  std::string model{};  ///< empty: the task's default
  std::string text{};   ///< a file for the task `text`; empty: the program writes a text
  std::uint32_t batch = 16;
  std::string sampling = "epochs";
  double skew = 0.0;
  bool augment = true;
  std::uint32_t train_samples = 0;
  std::uint32_t test_samples = 0;
  std::uint32_t scoring_batch = 0;
  int torch_threads = 1;
  std::string device = "cpu";
  std::string precision = "f32";  ///< of a network's matrix products
};

/// Everything that determines a run. Problem settings and method options that are not given have the default of their
/// row.
struct RunConfig {
  static constexpr int kOneLevel = 0;
  static constexpr int kByHostName = -1;

  std::string problem = "linear-regression";
  ProblemNumbers problem_settings{};
  TaskConfig task{};
  std::string method = "sgd";
  MethodOptions options{};
  OptimizerOptions optimizer{};
  double learning_rate = 0.01;
  std::vector<LearningRateDrop> schedule{};
  bool cosine = false;       ///< the learning rate falls along a cosine to kCosineEnd of it; schedule = cosine
  std::uint32_t warmup = 0;  ///< first steps, in which the learning rate rises
  double clip = 0.0;         ///< each worker's gradient is scaled down to this norm before the method sees it; 0: not
  int workers = 4;
  /// Ranks per host on two levels (laconic/two_levels.h): a number, or one of the two below.
  int within = kOneLevel;
  std::uint32_t steps = 100;  ///< in an asynchronous run the mean over workers
  std::uint64_t seed = 1;
  NonfinitePolicy nonfinite = NonfinitePolicy::error;
  /// Evaluations are at the point to test (read_out). In an asynchronous run ranks meet in rounds only, so there it is
  /// rank 0's own point.
  std::uint32_t eval_interval = 1;
  int adversaries = 0;
  double compute_seconds = 0.0;  ///< simulates computation behind which an exchange can be hidden
  std::vector<double> slowdown{};
  int threads = 1;
  bool overlap = true;
  std::uint32_t checkpoint_interval = 0;  ///< an asynchronous run writes a checkpoint at the next round
  double timeout = 60.0;
};

/// Workers, steps and learning rate come from the problem's row, unless the method's row has its own learning rate. The
/// other settings have the defaults above.
RunConfig default_config(std::string_view problem, std::string_view method = RunConfig().method);

/// For a network. Optimizer, learning rate and clipping come from the task's row, unless the method's row has its own
/// learning rate; the momentum of SGD is the method's, and Nesterov's for local steps between rounds. The schedule
/// depends on the number of steps: set_default_schedule.
RunConfig default_task_config(std::string_view task, std::string_view method);

/// ×0.1 after half of the steps, and again after three quarters.
std::vector<LearningRateDrop> default_task_schedule(std::uint32_t steps);

/// The task's schedule for the configuration's number of steps: default_task_schedule, or a cosine after a warm-up of a
/// tenth of the steps.
void set_default_schedule(RunConfig& config);

/// The share of the learning rate at which a cosine ends.
inline constexpr double kCosineEnd = 0.1;

/// Throws an InvalidConfig that names value, range and remedy. The problem and the method check their own settings.
void require_valid(const RunConfig& config);

double learning_rate_at(const RunConfig& config, std::uint32_t step);

/// What one step did, as this rank saw it.
struct StepRecord {
  std::uint32_t step = 0;   ///< number of steps that this rank has made, including this one
  double batch_loss = 0.0;  ///< this worker's loss at the point where its gradient was taken
  StepReport report;        ///< bytes, stages' seconds, bits, rounds, skipped, undone
  double gradient_seconds = 0.0;
  double step_seconds = 0.0;  ///< without the evaluation
  /// Only at evaluations.
  std::optional<double> loss;
  std::optional<double> accuracy;
  std::optional<double> perplexity;
  std::optional<double> distance;
  std::optional<double> residual_norm;
  /// Bytes sent since the start, by rank. They are gathered at evaluations of lockstep runs, by a message that is not
  /// counted.
  std::vector<std::uint64_t> sent_by_rank;
  std::vector<std::uint64_t> received_by_rank;
};

class Observer {
 public:
  virtual ~Observer() = default;
  /// Called before the first step, once every rank has started or has loaded its checkpoint. So it is not called if the
  /// configuration or the checkpoint is rejected. In a resumed run, this rank has already made `steps` steps.
  virtual void on_start(std::uint32_t /*steps*/) {}
  virtual void on_step(const StepRecord& /*record*/) {}
};

/// One rank's figures of a run, and the run's own figures, which are the same on all ranks.
struct RunResult {
  // Figures of the run.
  double loss = 0.0;                 ///< at the last evaluation
  std::optional<double> accuracy;    ///< at the last evaluation, for a network that classifies
  std::optional<double> perplexity;  ///< at the last evaluation, for a model of language
  std::optional<double> distance;    ///< from the optimum, if it is known
  std::vector<float> model;        ///< the point to test
  std::vector<std::uint64_t> sent_by_rank;
  std::vector<std::uint64_t> received_by_rank;
  std::vector<std::uint64_t> payload_by_rank;
  std::vector<std::uint64_t> inside_sent_by_rank;  ///< on two levels: what stayed inside the hosts; empty on one
  std::vector<std::uint64_t> messages_by_rank;  ///< number of messages sent
  std::vector<std::uint32_t> steps_by_rank;
  std::uint64_t total_sent_bytes = 0;
  std::uint64_t total_received_bytes = 0;
  std::string device;  ///< what computed the gradients: "cpu", or a GPU's name and how it computed
  // Figures of this rank.
  std::vector<float> worker_model;  ///< the point where its next gradient would be taken
  std::uint32_t steps = 0;
  std::uint32_t rounds = 0;
  std::uint64_t skipped = 0;
  std::uint64_t undone = 0;  ///< steps that RegTop-k's guard has undone
  Traffic traffic;
  Traffic within;  ///< on two levels what stayed inside the host, and `traffic` is what left it
  double gradient_seconds = 0.0;
  double select_seconds = 0.0;
  double step_seconds = 0.0;  ///< sum over steps, without evaluations
  double wall_seconds = 0.0;
  double mean_bits = 0.0;  ///< over the steps that counted
};

/// One rank of a run, over any engine. Collective. Ranks compare their whole configuration first: if one differs, then
/// all throw the same InvalidConfig, which names the rank, the setting and both values.
RunResult run_worker(const RunConfig& config, const Workload& workload, Communicator& communicator, Observer& observer,
                     const CheckpointPlan& checkpoints = {});
RunResult run_worker(const RunConfig& config, const Problem& problem, Communicator& communicator, Observer& observer);
RunResult run_worker(const RunConfig& config, Communicator& communicator, Observer& observer);

/// A whole run with ranks that are threads of this process; results by rank. The observer sees rank 0's steps.
std::vector<RunResult> run_threads(const RunConfig& config, const Workload& workload, Observer* observer = nullptr,
                                   const CheckpointPlan& checkpoints = {});
std::vector<RunResult> run_threads(const RunConfig& config, const Problem& problem, Observer* observer = nullptr);
std::vector<RunResult> run_threads(const RunConfig& config, Observer* observer = nullptr);

}  // namespace laconic
