#include "experiment/run.h"

#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "experiment/derive.h"
#include "laconic/error.h"
#include "laconic/threads.h"

namespace laconic {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Every rank's number, by rank. The message is not counted as traffic.
template <class Number>
std::vector<Number> gather(Communicator& communicator, Number mine) {
  std::vector<Number> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(as_bytes(View<const Number>(&mine, 1)), as_writable_bytes(View<Number>(all))).wait();
  return all;
}

std::uint64_t sum_of(const std::vector<std::uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

/// One rank's run: what it holds between steps.
class Worker {
 public:
  Worker(const RunConfig& config, const Problem& problem, Communicator& communicator, Observer& observer)
      : config_(config),
        problem_(problem),
        communicator_(communicator),
        observer_(observer),
        place_({.threads = config.threads}),
        model_(problem.start()),
        gradient_(model_.size()),
        tested_(model_.size()),
        asynchronous_(is_asynchronous(config)),
        method_(make_model_method(config.method, derived_options(config, problem), config.optimizer, communicator,
                                  place_)) {
    method_->register_tensors(problem.tensors());
    method_->set_nonfinite_policy(config.nonfinite);
    method_->set_scoring(
        [&problem](View<const float> point, View<float> gradient) { problem.shared_gradient(point, gradient); });
  }

  RunResult run() {
    const auto begun = Clock::now();
    StepReport report = method_->start(model_);
    if (models_may_differ(config_)) model_ = problem_.start_of(rank());
    // An asynchronous run ends when the workers have used up their steps together, whoever made them.
    while (!report.finished && (asynchronous_ || result_.steps < config_.steps)) {
      record_ = {};
      record_.step = result_.steps + 1;
      report = step();
      count(report);
      const bool last = report.finished || (!asynchronous_ && result_.steps == config_.steps);
      if (last || evaluation_is_due()) evaluate(last);
      observer_.on_step(record_);
    }
    finish();
    result_.wall_seconds = seconds_since(begun);
    return std::move(result_);
  }

 private:
  int rank() const { return communicator_.rank(); }

  StepReport step() {
    const auto begun = Clock::now();
    record_.batch_loss = problem_.gradient(rank(), result_.steps, model_, gradient_);
    if (rank() >= config_.workers - config_.adversaries) {
      for (float& value : gradient_) value = -value;
    }
    hold_back(begun);
    record_.gradient_seconds = seconds_since(begun);
    const StepInput input{.key = {config_.seed, result_.steps, static_cast<std::uint32_t>(rank())},
                          .learning_rate = static_cast<float>(learning_rate_at(config_, result_.steps)),
                          .loss = static_cast<float>(record_.batch_loss)};
    const StepReport report = method_->step(input, model_, gradient_);
    record_.step_seconds = seconds_since(begun);
    return report;
  }

  /// Makes the gradient last as long as it is asked to.
  void hold_back(Clock::time_point begun) const {
    if (config_.compute_seconds <= 0.0) return;
    const double times = config_.slowdown.empty() ? 1.0 : config_.slowdown[static_cast<std::size_t>(rank())];
    const std::chrono::duration<double> whole(config_.compute_seconds * times);
    std::this_thread::sleep_until(begun + std::chrono::duration_cast<Clock::duration>(whole));
  }

  void count(const StepReport& report) {
    record_.report = report;
    ++result_.steps;
    result_.rounds += report.rounds;
    result_.traffic += report.traffic;
    result_.gradient_seconds += record_.gradient_seconds;
    result_.select_seconds += report.select_seconds;
    result_.step_seconds += record_.step_seconds;
    if (!report.skipped) bits_ += report.bits;
  }

  bool evaluation_is_due() const { return config_.eval_interval != 0 && result_.steps % config_.eval_interval == 0; }

  /// Where all ranks meet the point to test is collective; where they do not, rank 0 looks at its own.
  void evaluate(bool last) {
    const bool together = !asynchronous_ || last;
    if (together) {
      method_->read_out(model_, tested_);
      record_.sent_by_rank = gather(communicator_, result_.traffic.sent_bytes);
      record_.received_by_rank = gather(communicator_, result_.traffic.received_bytes);
    }
    record_.residual_norm = method_->residual_norm();
    if (rank() != 0 && !last) return;
    const View<const float> point = together ? View<const float>(tested_) : View<const float>(model_);
    record_.loss = problem_.loss(point);
    record_.distance = problem_.distance(point);
  }

  void finish() {
    if (result_.steps == 0) {  // a run of no steps, or a worker whom the others left none: read_out is collective
      method_->read_out(model_, tested_);
      record_.sent_by_rank = gather(communicator_, result_.traffic.sent_bytes);
      record_.received_by_rank = gather(communicator_, result_.traffic.received_bytes);
      record_.loss = problem_.loss(tested_);
      record_.distance = problem_.distance(tested_);
    }
    result_.loss = record_.loss.value();
    result_.distance = record_.distance;
    result_.sent_by_rank = record_.sent_by_rank;
    result_.received_by_rank = record_.received_by_rank;
    result_.total_sent_bytes = sum_of(result_.sent_by_rank);
    result_.total_received_bytes = sum_of(result_.received_by_rank);
    result_.payload_by_rank = gather(communicator_, result_.traffic.payload_bytes);
    result_.messages_by_rank = gather(communicator_, result_.traffic.sent_messages);
    result_.steps_by_rank = gather(communicator_, result_.steps);
    result_.skipped = method_->skipped_steps();
    const double counted = static_cast<double>(result_.steps) - static_cast<double>(result_.skipped);
    result_.mean_bits = counted > 0.0 ? bits_ / counted : 0.0;
    result_.model = std::move(tested_);
    result_.worker_model = std::move(model_);
  }

  const RunConfig& config_;
  const Problem& problem_;
  Communicator& communicator_;
  Observer& observer_;
  Place place_;
  std::vector<float> model_;
  std::vector<float> gradient_;
  std::vector<float> tested_;
  bool asynchronous_;
  std::unique_ptr<ModelMethod> method_;
  StepRecord record_;
  RunResult result_;
  double bits_ = 0.0;
};

}  // namespace

RunResult run_worker(const RunConfig& config, const Problem& problem, Communicator& communicator, Observer& observer) {
  require_valid(config);
  if (communicator.size() != config.workers || problem.workers() != config.workers) {
    throw InvalidConfig("the run has " + std::to_string(config.workers) + " workers, its engine " +
                        std::to_string(communicator.size()) + " ranks and its problem " +
                        std::to_string(problem.workers()) + ": all three must be the same");
  }
  return Worker(config, problem, communicator, observer).run();
}

RunResult run_worker(const RunConfig& config, Communicator& communicator, Observer& observer) {
  require_valid(config);
  const auto problem = make_problem(config.problem, config.problem_settings, config.workers, config.seed);
  return run_worker(config, *problem, communicator, observer);
}

std::vector<RunResult> run_threads(const RunConfig& config, const Problem& problem, Observer* observer) {
  require_valid(config);
  std::vector<RunResult> results(static_cast<std::size_t>(config.workers));
  run_ranks(config.workers, [&](Communicator& communicator) {
    Observer silent;
    Observer& chosen = observer != nullptr && communicator.rank() == 0 ? *observer : silent;
    results[static_cast<std::size_t>(communicator.rank())] = run_worker(config, problem, communicator, chosen);
  });
  return results;
}

std::vector<RunResult> run_threads(const RunConfig& config, Observer* observer) {
  require_valid(config);
  const auto problem = make_problem(config.problem, config.problem_settings, config.workers, config.seed);
  return run_threads(config, *problem, observer);
}

}  // namespace laconic
