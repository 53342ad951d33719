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
// A problem that no name and no settings can tell (problems/quadratic.h) is made by the caller and handed over:
// run_threads(config, *problem). A step-by-step curve comes through an Observer, given for rank 0.

namespace laconic {

/// From `step` on the learning rate is multiplied by `factor`.
struct LearningRateDrop {
  std::uint32_t step = 0;
  double factor = 1.0;
};

/// A network on a data set, in place of a problem.
struct TaskConfig {
  std::string name{};               ///< empty: the run is on a problem
  std::string model{};              ///< empty: the task's own
  std::uint32_t batch = 16;         ///< samples of a worker's step
  std::string sampling = "epochs";  ///< epochs | replacement
  double skew = 0.0;                ///< 0: shards alike; 1: sorted by label
  bool augment = true;              ///< crops and flips, where the task has them
  std::uint32_t train_samples = 0;  ///< 0: all
  std::uint32_t test_samples = 0;   ///< 0: all
  std::uint32_t scoring_batch = 0;  ///< samples of the batch that scores a round; 0: as many as a worker's
  int torch_threads = 1;            ///< of each worker's network
  std::string device = "cpu";
};

/// Everything that a run is a function of. What is left out of the problem's settings and the method's options has
/// the default of their row.
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
  std::uint32_t steps = 100;  ///< of each worker; in an asynchronous run their mean
  std::uint64_t seed = 1;     ///< of the problem's data and noise, and of every draw of the method
  NonfinitePolicy nonfinite = NonfinitePolicy::error;
  /// Loss and distance are taken at the point to test (read_out) after every so many steps; 0: only after the last.
  /// In an asynchronous run ranks meet in rounds only, so there it is rank 0's own point.
  std::uint32_t eval_interval = 1;
  /// So many workers, the last ones, hand over their gradient with its sign inverted.
  int adversaries = 0;
  /// Each gradient takes at least so long: a computation to hide, or not to hide, the exchange behind.
  double compute_seconds = 0.0;
  /// By rank, as often as long; empty: all 1.
  std::vector<double> slowdown{};
  int threads = 1;      ///< of each rank's kernels
  bool overlap = true;  ///< tensors travel as soon as backward has made them, where the method can
  /// Steps between two checkpoints, where there is a folder for them; an asynchronous run takes the next round; 0:
  /// none.
  std::uint32_t checkpoint_interval = 0;
  double timeout = 60.0;  ///< seconds after which a silent rank is given up
};

/// The problem's row gives workers, steps and learning rate, unless the method's row has a usual one; the rest as above.
RunConfig default_config(std::string_view problem, std::string_view method = RunConfig().method);

/// For a network: batches of 16 on 4 workers, 500 steps. What suits the method: learning rate 0.05, unless its row has
/// another (1e-3 for adam, 5e-4 where signs vote), momentum 0.9, by Nesterov for local steps between rounds, none after a vote or with Adam.
RunConfig default_task_config(std::string_view task, std::string_view method);

/// ×0.1 at half of the steps and again at three quarters.
std::vector<LearningRateDrop> default_task_schedule(std::uint32_t steps);

/// InvalidConfig naming value, range and remedy. Problem settings and method options are checked by what they belong
/// to.
void require_valid(const RunConfig& config);

double learning_rate_at(const RunConfig& config, std::uint32_t step);

/// What one step did, as this rank saw it.
struct StepRecord {
  std::uint32_t step = 0;   ///< steps that this rank has made, this one included: from 1
  double batch_loss = 0.0;  ///< this worker's function where its gradient was taken
  StepReport report;        ///< bytes, stages' seconds, bits, rounds, skipped, undone
  double gradient_seconds = 0.0;
  double step_seconds = 0.0;  ///< all but the evaluation
  /// At evaluations only.
  std::optional<double> loss;
  std::optional<double> accuracy;
  std::optional<double> distance;
  std::optional<double> residual_norm;
  /// Bytes of all ranks since the start, by rank; gathered at evaluations of lockstep runs by a message that is not
  /// counted.
  std::vector<std::uint64_t> sent_by_rank;
  std::vector<std::uint64_t> received_by_rank;
};

class Observer {
 public:
  virtual ~Observer() = default;
  /// Before the first step, once every rank has started, or has loaded what it goes on from: what is refused before is
  /// never seen here. A run that goes on has `steps` of this rank behind it.
  virtual void on_start(std::uint32_t /*steps*/) {}
  virtual void on_step(const StepRecord& /*record*/) {}
};

/// A run as one rank saw it, and the run's own figures, which are the same on all ranks.
struct RunResult {
  // The run's.
  double loss = 0.0;               ///< at the last evaluation
  std::optional<double> accuracy;  ///< there, of a network
  std::optional<double> distance;  ///< from the optimum, where it is known
  std::vector<float> model;        ///< the point to test
  std::vector<std::uint64_t> sent_by_rank;
  std::vector<std::uint64_t> received_by_rank;
  std::vector<std::uint64_t> payload_by_rank;
  std::vector<std::uint64_t> messages_by_rank;  ///< that were sent
  std::vector<std::uint32_t> steps_by_rank;
  std::uint64_t total_sent_bytes = 0;
  std::uint64_t total_received_bytes = 0;
  // This rank's.
  std::vector<float> worker_model;  ///< where its next gradient would be taken
  std::uint32_t steps = 0;
  std::uint32_t rounds = 0;
  std::uint64_t skipped = 0;
  std::uint64_t undone = 0;  ///< steps that RegTop-k's guard took back
  Traffic traffic;
  double gradient_seconds = 0.0;
  double select_seconds = 0.0;
  double step_seconds = 0.0;  ///< sum over steps, evaluations left out
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
