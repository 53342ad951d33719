#include "experiment/run.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/buffer.h"
#include "base/transfer.h"
#include "experiment/config_state.h"
#include "experiment/config_text.h"
#include "experiment/derive.h"
#include "experiment/gather.h"
#include "experiment/together.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "laconic/error.h"
#include "laconic/threads.h"
#include "laconic/two_levels.h"
#include "methods/state_memory.h"
#include "transport/agreement.h"

namespace laconic {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::uint64_t sum_of(const std::vector<std::uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

/// Everything that all ranks must have alike.
std::vector<AgreedField> agreed_fields(const RunConfig& config, const CheckpointPlan& checkpoints) {
  std::vector<AgreedField> fields;
  for (const ConfigEntry& entry : entries_of(config)) fields.push_back({full_name(entry), or_none(entry.value)});
  // Where each rank's folder is mounted is its own business; which checkpoint it is, is not.
  const std::string resumed = std::filesystem::path(checkpoints.resume).filename().string();
  fields.push_back({"checkpoint to go on from", or_none(resumed)});
  if (config.checkpoint_interval != 0) fields.push_back({"folder of checkpoints", or_none(checkpoints.folder)});
  return fields;
}

template <class Count>
void load_count(const State& counts, const char* name, Count& count) {
  constexpr double kLargest = std::is_same_v<Count, std::uint32_t> ? 4294967295.0 : 1e18;
  const double value = counts.number(name);
  if (!(value >= 0.0 && value <= kLargest)) {
    throw InvalidConfig("saved count of " + std::string(name) + " must be in [0, " + text_of(kLargest) + "], got " +
                        text_of(value) + ": load an older checkpoint");
  }
  count = static_cast<Count>(value);
}

/// Null: one level.
std::unique_ptr<TwoLevels> levels_of(const RunConfig& config, Communicator& communicator) {
  if (config.within == RunConfig::kOneLevel) return nullptr;
  const bool by_name = config.within == RunConfig::kByHostName;
  return std::make_unique<TwoLevels>(
      communicator, by_name ? hosts_by_name(communicator) : hosts_of_size(communicator.size(), config.within));
}

/// One rank's run: what it holds between steps.
class Worker {
 public:
  Worker(const RunConfig& config, const Workload& workload, Communicator& communicator, Observer& observer,
         const CheckpointPlan& checkpoints)
      : config_(config),
        communicator_(communicator),
        observer_(observer),
        checkpoints_(checkpoints),
        learner_(workload.make_learner(config, communicator.rank())),
        place_(learner_->place()),
        asynchronous_(is_asynchronous(config)),
        period_(round_period(config)),
        levels_(levels_of(config, communicator)),
        method_(make_run_method(derived_options(config, workload))) {
    std::uint64_t parameters = 0;
    for (const Tensor& tensor : learner_->tensors()) {
      offsets_.push_back(parameters);
      parameters += tensor.size;
    }
    for (Buffer<float>* buffer : {&model_memory_, &gradient_memory_, &tested_memory_}) {
      buffer->reserve(place_, parameters);
    }
    model_ = model_memory_.view(parameters);
    gradient_ = gradient_memory_.view(parameters);
    tested_ = tested_memory_.view(parameters);
    method_->register_tensors(learner_->tensors());
    result_.device = learner_->device();
    // A clipped gradient is known when all of it is.
    streaming_ = config.overlap && config.clip == 0.0 && learner_->tells_when_ready() && method_->streams();
    method_->set_nonfinite_policy(config.nonfinite);
    if (asynchronous_ && !checkpoints.folder.empty() && config.checkpoint_interval != 0) {
      method_->set_after_round([this](const StepReport& so_far) { after_round(so_far); });
    }
    method_->set_scoring([this](View<const float> point, View<float> gradient) {
      learner_->shared_gradient(scored_++, point, gradient);
    });
  }

  RunResult run() {
    try {
      return steps();
    } catch (const InvalidConfig&) {
      throw;  // the others find it themselves
    } catch (const std::exception& error) {
      communicator_.fail(error_text(error));  // while what may be in flight still has its memory
      throw;
    }
  }

 private:
  RunResult steps() {
    StepReport report = checkpoints_.resume.empty() ? start() : resume();
    observer_.on_start(result_.steps);
    // An asynchronous run ends when the workers have used up their steps together, whoever made them.
    while (!report.finished && (asynchronous_ || result_.steps < config_.steps)) {
      record_ = {};
      record_.step = result_.steps + 1;
      report = step();
      count(report);
      const bool last = report.finished || (!asynchronous_ && result_.steps == config_.steps);
      if (last || evaluation_is_due()) evaluate(last);
      observer_.on_step(record_);
      if (!last && checkpoint_is_due()) keep_checkpoint();
    }
    finish();
    result_.wall_seconds += seconds_since(begun_);
    return std::move(result_);
  }

  int rank() const { return communicator_.rank(); }

  std::unique_ptr<ModelMethod> make_run_method(const MethodOptions& options) {
    if (levels_) return make_model_method(config_.method, options, config_.optimizer, *levels_, place_);
    return make_model_method(config_.method, options, config_.optimizer, communicator_, place_);
  }

  StepReport start() {
    learner_->start(model_);
    const StepReport report = method_->start(model_);
    // A worker that the others left behind joins a round in its start, and has its model from there.
    if (workers_start_apart(config_) && report.rounds == 0) learner_->start_apart(model_);
    count_report(report);
    return report;
  }

  /// As the checkpoint left it.
  StepReport resume() {
    succeed_together(communicator_, [&] {
      const State state = read_checkpoint(checkpoints_.resume, rank());
      require_same_config(state.nested("configuration"), config_, checkpoints_.resume);
      try {
        load(state);
      } catch (const InvalidConfig& error) {
        throw InvalidConfig(checkpoints_.resume + ", rank " + std::to_string(rank()) + ": " + error.what());
      }
    });
    const StepReport report = method_->start(model_);
    count_report(report);
    return report;
  }

  void load(const State& state) {
    get_memory(state, "model", place_, model_);
    method_->load(state.nested("method"));
    learner_->load(state.nested("learner"));
    load_counts(state.nested("counts"));
  }

  StepReport step() {
    const auto begun = Clock::now();
    StepInput input{.key = {config_.seed, result_.steps, static_cast<std::uint32_t>(rank())},
                    .learning_rate = static_cast<float>(learning_rate_at(config_, result_.steps))};
    stepping_ = true;
    const StepReport report = streaming_ ? streamed_step(input, begun) : whole_step(input, begun);
    stepping_ = false;
    record_.step_seconds = seconds_since(begun);
    return report;
  }

  StepReport whole_step(StepInput& input, Clock::time_point begun) {
    record_.batch_loss = learner_->gradient(result_.steps, model_, gradient_, {});
    if (config_.clip > 0.0) clip(gradient_);
    if (is_adversary()) invert(gradient_);
    hold_back(begun);
    record_.gradient_seconds = seconds_since(begun);
    input.loss = static_cast<float>(record_.batch_loss);
    return method_->step(input, model_, gradient_);
  }

  /// Tensors are handed over as backward makes them. The time that this takes is not the gradient's.
  StepReport streamed_step(const StepInput& input, Clock::time_point begun) {
    double handing_over = 0.0;
    method_->begin_step(input, model_);
    record_.batch_loss = learner_->gradient(result_.steps, model_, gradient_, [&](std::uint32_t tensor) {
      const auto ready = Clock::now();
      const View<float> values = gradient_.sub(offsets_[tensor], learner_->tensors()[tensor].size);
      const TensorPart part{tensor, values};
      if (is_adversary()) invert(values);
      method_->add({&part, 1});
      handing_over += seconds_since(ready);
    });
    // What has begun to travel does so meanwhile.
    hold_back(begun + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(handing_over)));
    record_.gradient_seconds = seconds_since(begun) - handing_over;
    return method_->finish_step();
  }

  bool is_adversary() const { return rank() >= config_.workers - config_.adversaries; }

  /// Scales the gradient down to the norm that it may have. One that is not finite stays as it is: the method reports
  /// it.
  void clip(View<float> gradient) {
    status_.reserve(place_, 1);
    clear_status(place_, status_.view(1));
    const double norm = std::sqrt(read_sum_of_squares(place_, gradient, status_.view(1)));
    if (norm > config_.clip && std::isfinite(norm)) divide(place_, static_cast<float>(norm / config_.clip), gradient);
  }

  /// x / −1 is −x, exactly.
  void invert(View<float> gradient) { divide(place_, -1.0F, gradient); }

  std::vector<float> on_cpu(View<const float> values) {
    std::vector<float> here(values.size());
    copy_to_cpu(place_, values, here.data());
    return here;
  }

  /// Makes the gradient last as long as it is asked to.
  void hold_back(Clock::time_point begun) const {
    if (config_.compute_seconds <= 0.0) return;
    const double times = config_.slowdown.empty() ? 1.0 : config_.slowdown[static_cast<std::size_t>(rank())];
    const std::chrono::duration<double> whole(config_.compute_seconds * times);
    const auto end = begun + std::chrono::duration_cast<Clock::duration>(whole);
    // Tensors that were handed over go on only when somebody asks.
    while (streaming_ && Clock::now() < end) {
      method_->poll();
      std::this_thread::sleep_until(std::min(end, Clock::now() + std::chrono::milliseconds(1)));
    }
    std::this_thread::sleep_until(end);
  }

  void count(const StepReport& report) {
    record_.report = report;
    ++result_.steps;
    result_.gradient_seconds += record_.gradient_seconds;
    result_.step_seconds += record_.step_seconds;
    count_report(report);
  }

  void count_report(const StepReport& report) {
    result_.rounds += report.rounds;
    result_.traffic += report.traffic;
    result_.within += report.within;
    result_.select_seconds += report.select_seconds;
    if (report.undone) ++result_.undone;
    if (!report.skipped) bits_ += report.bits;
  }

  bool evaluation_is_due() const { return config_.eval_interval != 0 && result_.steps % config_.eval_interval == 0; }

  /// Where all ranks meet the point to test is collective; where they do not, rank 0 looks at its own.
  void evaluate(bool together) {
    together = together || !asynchronous_;
    if (together) {
      method_->read_out(model_, tested_);
      record_.sent_by_rank = gather_number(communicator_, result_.traffic.sent_bytes);
      record_.received_by_rank = gather_number(communicator_, result_.traffic.received_bytes);
    }
    record_.residual_norm = method_->residual_norm();
    if (!together && rank() != 0) return;
    const Evaluation worth = learner_->evaluate(together ? tested_ : model_, together ? &communicator_ : nullptr);
    record_.loss = worth.loss;
    record_.accuracy = worth.accuracy;
    record_.perplexity = worth.perplexity;
    record_.distance = worth.distance;
  }

  /// The steps that a worker has made in the mean: in an asynchronous run at a round, a whole number of periods.
  std::uint32_t mean_steps() const { return asynchronous_ ? result_.rounds * period_ : result_.steps; }

  bool checkpoint_is_due() const {
    return !asynchronous_ && !checkpoints_.folder.empty() && config_.checkpoint_interval != 0 &&
           result_.steps % config_.checkpoint_interval == 0;
  }

  void keep_checkpoint() { write_checkpoint(checkpoints_.folder, mean_steps(), state(), communicator_); }

  /// In an asynchronous run ranks meet in rounds only, inside a step: what the step did so far counts for what is kept.
  void after_round(const StepReport& so_far) {
    const RunResult counted = result_;
    const double bits = bits_;
    if (stepping_) ++result_.steps;
    count_report(so_far);
    const std::uint32_t interval = config_.checkpoint_interval;
    const bool last = mean_steps() >= config_.steps;
    if (!last && mean_steps() / interval > (mean_steps() - period_) / interval) keep_checkpoint();
    result_ = counted;
    bits_ = bits;
  }

  State state() {
    State state;
    state.put("configuration", config_state(config_));
    put_memory(state, "model", place_, View<const float>(model_));
    state.put("method", method_->save());
    State learner;
    learner_->save(learner);
    state.put("learner", learner);
    state.put("counts", counts());
    return state;
  }

  /// What a run has counted, by name, so that one that goes on ends with the figures of the whole.
  template <class Visit>
  void visit_counts(Visit&& visit) {
    visit("steps", result_.steps);
    visit("rounds", result_.rounds);
    visit("undone", result_.undone);
    visit("scored", scored_);
    visit("bits", bits_);
    visit("payload bytes", result_.traffic.payload_bytes);
    visit("sent bytes", result_.traffic.sent_bytes);
    visit("received bytes", result_.traffic.received_bytes);
    visit("sent messages", result_.traffic.sent_messages);
    visit("encode seconds", result_.traffic.encode_seconds);
    visit("exchange seconds", result_.traffic.exchange_seconds);
    visit("decode seconds", result_.traffic.decode_seconds);
    if (levels_) visit("inside sent bytes", result_.within.sent_bytes);
    visit("gradient seconds", result_.gradient_seconds);
    visit("select seconds", result_.select_seconds);
    visit("step seconds", result_.step_seconds);
  }

  State counts() {
    State counts;
    visit_counts([&](const char* name, const auto& count) { counts.put(name, static_cast<double>(count)); });
    counts.put("skipped", static_cast<double>(skipped_before_ + method_->skipped_steps()));
    counts.put("wall seconds", result_.wall_seconds + seconds_since(begun_));
    return counts;
  }

  void load_counts(const State& counts) {
    visit_counts([&](const char* name, auto& count) { load_count(counts, name, count); });
    load_count(counts, "skipped", skipped_before_);
    load_count(counts, "wall seconds", result_.wall_seconds);
  }

  void finish() {
    // A run of no steps, one that was resumed at its end, or a worker whom the others left none: read_out is
    // collective.
    if (!record_.loss || record_.sent_by_rank.empty()) evaluate(true);
    result_.loss = record_.loss.value();
    result_.accuracy = record_.accuracy;
    result_.perplexity = record_.perplexity;
    result_.distance = record_.distance;
    result_.sent_by_rank = record_.sent_by_rank;
    result_.received_by_rank = record_.received_by_rank;
    result_.total_sent_bytes = sum_of(result_.sent_by_rank);
    result_.total_received_bytes = sum_of(result_.received_by_rank);
    result_.payload_by_rank = gather_number(communicator_, result_.traffic.payload_bytes);
    if (levels_) result_.inside_sent_by_rank = gather_number(communicator_, result_.within.sent_bytes);
    result_.messages_by_rank = gather_number(communicator_, result_.traffic.sent_messages);
    result_.steps_by_rank = gather_number(communicator_, result_.steps);
    result_.skipped = skipped_before_ + method_->skipped_steps();
    const double counted = static_cast<double>(result_.steps) - static_cast<double>(result_.skipped);
    result_.mean_bits = counted > 0.0 ? bits_ / counted : 0.0;
    if (!checkpoints_.model_file.empty() && rank() == 0) learner_->write_model(checkpoints_.model_file, tested_);
    result_.model = on_cpu(tested_);
    result_.worker_model = on_cpu(model_);
  }

  const Clock::time_point begun_ = Clock::now();
  const RunConfig& config_;
  Communicator& communicator_;
  Observer& observer_;
  const CheckpointPlan& checkpoints_;
  std::unique_ptr<Learner> learner_;
  Place& place_;  ///< the learner's
  Buffer<float> model_memory_;
  Buffer<float> gradient_memory_;
  Buffer<float> tested_memory_;
  Buffer<Status> status_;  ///< of the norm by which gradients are clipped
  View<float> model_;
  View<float> gradient_;
  View<float> tested_;
  bool asynchronous_;
  bool streaming_ = false;
  bool stepping_ = false;
  std::vector<std::uint64_t> offsets_;  ///< of tensors
  std::uint32_t period_;
  std::unique_ptr<TwoLevels> levels_;  ///< null: one level
  std::unique_ptr<ModelMethod> method_;
  StepRecord record_;
  RunResult result_;
  std::uint32_t scored_ = 0;  ///< rounds that asked for a shared gradient
  std::uint64_t skipped_before_ = 0;
  double bits_ = 0.0;
};

}  // namespace

RunResult run_worker(const RunConfig& config, const Workload& workload, Communicator& communicator, Observer& observer,
                     const CheckpointPlan& checkpoints) {
  require_valid(config);
  if (communicator.size() != config.workers) {
    throw InvalidConfig("the run has " + std::to_string(config.workers) + " workers, its engine " +
                        std::to_string(communicator.size()) + " ranks: both must be the same");
  }
  communicator.set_timeout(Milliseconds(static_cast<Milliseconds::rep>(std::ceil(config.timeout * 1000.0))));
  require_agreement(communicator, agreed_fields(config, checkpoints));
  return Worker(config, workload, communicator, observer, checkpoints).run();
}

RunResult run_worker(const RunConfig& config, const Problem& problem, Communicator& communicator, Observer& observer) {
  return run_worker(config, *problem_workload(problem), communicator, observer);
}

RunResult run_worker(const RunConfig& config, Communicator& communicator, Observer& observer) {
  require_valid(config);
  const auto problem = make_problem(config.problem, config.problem_settings, config.workers, config.seed);
  return run_worker(config, *problem, communicator, observer);
}

std::vector<RunResult> run_threads(const RunConfig& config, const Workload& workload, Observer* observer,
                                   const CheckpointPlan& checkpoints) {
  require_valid(config);
  std::vector<RunResult> results(static_cast<std::size_t>(config.workers));
  const auto work = [&](Communicator& communicator) {
    Observer silent;
    Observer& chosen = observer != nullptr && communicator.rank() == 0 ? *observer : silent;
    results[static_cast<std::size_t>(communicator.rank())] =
        run_worker(config, workload, communicator, chosen, checkpoints);
  };
  run_ranks(config.workers, work, workload.copying_place(config));
  return results;
}

std::vector<RunResult> run_threads(const RunConfig& config, const Problem& problem, Observer* observer) {
  return run_threads(config, *problem_workload(problem), observer);
}

std::vector<RunResult> run_threads(const RunConfig& config, Observer* observer) {
  require_valid(config);
  const auto problem = make_problem(config.problem, config.problem_settings, config.workers, config.seed);
  return run_threads(config, *problem, observer);
}

}  // namespace laconic
