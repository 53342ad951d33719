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

/// A network on a data set, in place of a problem.
struct TaskConfig {
  std::string name{};               ///< empty: the run is on a problem
  std::string model{};              ///< empty: the task's default
  std::uint32_t batch = 16;         ///< samples per step and worker
  std::string sampling = "epochs";  ///< epochs | replacement
  double skew = 0.0;                ///< 0: shards are alike; 1: sorted by label
  bool augment = true;              ///< crops and flips, if the task has them
  std::uint32_t train_samples = 0;  ///< 0: all
  std::uint32_t test_samples = 0;   ///< 0: all
  std::uint32_t scoring_batch = 0;  ///< samples of the batch that scores models in a round; 0: same as `batch`
  int torch_threads = 1;            ///< threads of each worker's network
  std::string device = "cpu";
};

/// Everything that determines a run. Problem settings and method options that are not given have the default of their
/// row.
struct RunConfig {
  std::string problem = "linear-regression";
  ProblemNumbers problem_settings{};
  TaskConfig task{};
  std::string method = "sgd";
  MethodOptions options{};
  OptimizerOptions optimizer{};
  double learning_rate = 0.01;
  std::vector<LearningRateDrop> schedule{};
  int workers = 4;
  std::uint32_t steps = 100;  ///< per worker; in an asynchronous run the mean over workers
  std::uint64_t seed = 1;     ///< of the problem's data and noise, and of every draw of the method
  NonfinitePolicy nonfinite = NonfinitePolicy::error;
  /// Steps between evaluations of loss and distance at the point to test (read_out); 0: only after the last step. In an
  /// asynchronous run ranks meet only in rounds, so it evaluates rank 0's own point.
  std::uint32_t eval_interval = 1;
  /// The last `adversaries` workers send their gradient with inverted sign.
  int adversaries = 0;
  /// Minimum time of each gradient. It simulates computation behind which an exchange can be hidden.
  double compute_seconds = 0.0;
  /// Slowdown factor per rank; empty means 1 for all.
  std::vector<double> slowdown{};
  int threads = 1;      ///< threads of each rank's kernels
  bool overlap = true;  ///< if the method can, it exchanges tensors as soon as the backward pass has computed them
  /// Steps between two checkpoints, if there is a folder for them; 0: none. An asynchronous run writes a checkpoint at
  /// the next round.
  std::uint32_t checkpoint_interval = 0;
  double timeout = 60.0;  ///< seconds after which a rank that does not respond counts as failed
};

/// Workers, steps and learning rate come from the problem's row, unless the method's row has its own learning rate. The
/// other settings have the defaults above.
RunConfig default_config(std::string_view problem, std::string_view method = RunConfig().method);

/// For a network: batches of 16 on 4 workers, 500 steps. The optimizer depends on the method: learning rate 0.05 unless
/// its row has another (1e-3 for adam, 5e-4 for votes on signs); momentum 0.9, Nesterov's for local steps between
/// rounds, and none for votes and Adam.
RunConfig default_task_config(std::string_view task, std::string_view method);

/// ×0.1 after half of the steps, and again after three quarters.
std::vector<LearningRateDrop> default_task_schedule(std::uint32_t steps);

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
  double loss = 0.0;               ///< at the last evaluation
  std::optional<double> accuracy;  ///< at the last evaluation, for a network
  std::optional<double> distance;  ///< from the optimum, if it is known
  std::vector<float> model;        ///< the point to test
  std::vector<std::uint64_t> sent_by_rank;
  std::vector<std::uint64_t> received_by_rank;
  std::vector<std::uint64_t> payload_by_rank;
  std::vector<std::uint64_t> messages_by_rank;  ///< number of messages sent
  std::vector<std::uint32_t> steps_by_rank;
  std::uint64_t total_sent_bytes = 0;
  std::uint64_t total_received_bytes = 0;
  // Figures of this rank.
  std::vector<float> worker_model;  ///< the point where its next gradient would be taken
  std::uint32_t steps = 0;
  std::uint32_t rounds = 0;
  std::uint64_t skipped = 0;
  std::uint64_t undone = 0;  ///< steps that RegTop-k's guard has undone
  Traffic traffic;
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
