#include "methods/rounds.h"

#include "base/check.h"
#include "base/scratch_status.h"
#include "base/transfer.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "laconic/error.h"
#include "laconic/nonfinite.h"
#include "methods/state_memory.h"
#include "methods/sum_options.h"
#include "transport/agreement.h"

namespace laconic {
namespace {

RoundSchedule schedule_of(const Settings& settings) {
  const auto total = static_cast<std::uint64_t>(settings.number("total_steps"));
  const bool async = settings.is("pace", "async");
  if (async && total == 0) {
    throw InvalidConfig(settings.method() +
                        ": pace = async needs total_steps of 1 or more, got 0: the run ends when each worker has made "
                        "total_steps steps on average; set it, or use pace = lockstep");
  }
  return {static_cast<std::uint64_t>(settings.number("period")), total, async};
}

}  // namespace

RoundMethod::RoundMethod(const Settings& settings, const OptimizerOptions& optimizer, Communicator& communicator,
                         Place& place, Senders senders)
    : ModelBase(settings.method(), communicator, place, asks_for_compression(settings) ? this : nullptr),
      optimizer_(optimizer),
      schedule_(schedule_of(settings)) {
  if (asks_for_compression(settings)) compression_ = make_compression(settings, senders);
  if (settings.has("pull")) pull_ = static_cast<float>(settings.number("pull"));
  if (settings.has("proximity")) {
    proximity_ = static_cast<float>(settings.number("proximity") / settings.number("period"));
  }
}

void RoundMethod::prepare() {
  if (compresses()) {
    compression_->prepare(place(), tensors());
    residual_.prepare(place(), parameters());
  }
  optimizer_.prepare(place(), tensors());
  for (Buffer<float>* buffer : {&centre_, &next_centre_}) {
    buffer->reserve(place(), parameters());
    fill(place(), 0.0F, buffer->view(parameters()));
  }
  make_all_exchanges();
}

void RoundMethod::make_all_exchanges() {
  if (compresses()) compression_->make_exchanges(pipeline());
  make_exchanges();
}

std::vector<View<float>> RoundMethod::owed() {
  std::vector<View<float>> views = optimizer_.memory();
  if (compresses()) views.insert(views.begin(), residual_.view());
  return views;
}

std::vector<AgreedField> RoundMethod::common_fields(View<const float> model) {
  if (phase() == Phase::made) return ModelBase::common_fields(model);
  return {{"rounds so far", std::to_string(schedule_.rounds())},
          {"steps since the last round", std::to_string(schedule_.steps())},
          checksum_field("the centre", centre())};
}

StepReport RoundMethod::do_start(View<float> model) {
  if (phase() == Phase::made) copy(place(), model, centre_.view(parameters()));
  if (newcomer_) copy(place(), centre(), model);
  newcomer_ = false;
  schedule_.join(communicator());
  StepReport report;
  take_turns(model, report);
  return report;
}

StepReport RoundMethod::do_step(const StepInput& input, View<float> model, View<float> gradient) {
  if (schedule_.ended()) {
    throw InvalidConfig(name() + ": step() after the last of total_steps: stop when a report says finished");
  }
  StepReport report;
  local_step(input, model, gradient, report);
  schedule_.count_step();
  take_turns(model, report);
  return report;
}

/// A step that is dropped counts in the schedule, so that workers in lockstep stay so; it moves nothing.
void RoundMethod::local_step(const StepInput& input, View<float> model, View<float> gradient, StepReport& report) {
  at_round_ = false;
  last_step_ = input.key.step;
  Status status;
  {
    const Stopwatch watch(report.select_seconds);
    const ScratchStatus flags(place());
    check(input, gradient, flags.view());
    status = flags.read();
  }
  if (status.nonfinite != 0) {
    core().locate_nonfinite(gradient, status);
    if (policy() == NonfinitePolicy::error) core().refuse_own_nonfinite(input.key.step);
    ++core().skipped_steps;
    report.skipped = true;
    return;
  }
  observe(input);
  optimizer_.step(place(), input.learning_rate, gradient, model);
  if (proximity_ != 0.0F) blend(place(), proximity_, centre(), model);
}

void RoundMethod::check(const StepInput& /*input*/, View<const float> gradient, StatusView status) {
  find_nonfinite(place(), gradient, status);
}

void RoundMethod::take_turns(View<float> model, StepReport& report) {
  Turn turn = schedule_.next();
  while (turn == Turn::round) {
    hold_round(model, report);
    turn = schedule_.next();
  }
  report.finished = turn == Turn::end;
}

void RoundMethod::hold_round(View<float> model, StepReport& report) {
  core().forget_nonfinite();  // what a dropped step found
  const View<float> next_centre = next_centre_.view(parameters());
  const ScratchStatus flags(place());
  meet(model, next_centre, flags.view(), report);
  const Status status = flags.read();
  if (status.nonfinite == 0) {
    pull(model, next_centre);
    if (compresses()) keep_unsent();  // d
    std::swap(centre_, next_centre_);
  } else if (policy() == NonfinitePolicy::error) {
    refuse_round(model, status);
  } else {
    ++core().skipped_steps;
    report.skipped = true;
  }
  begin_period();
  schedule_.count_round();
  ++report.rounds;
  at_round_ = true;
  tell_round(report);
}

void RoundMethod::write_difference(View<const float> model, View<float> difference) {
  const ScratchStatus unused(place());  // the compression looks as well
  scaled_difference(place(), 1.0F, centre(), model, difference, unused.view());
}

void RoundMethod::exchange_differences(View<float> differences, StatusView status, StepReport& report) {
  exchange_differences(kNoLeader, differences, status, report);
}

void RoundMethod::exchange_differences(int leader, View<float> differences, StatusView status, StepReport& report) {
  leader_ = leader;
  pipeline().begin(false, report);
  pipeline().add(differences);
  pipeline().finish();
  copy_from_cpu<Status>(place(), &pipeline().status(), status);
  subtract_scaled(place(), centre(), 1.0F, differences, differences);  // c
}

Exchange& RoundMethod::start_chunk(const Chunk& chunk, GradientView differences, StatusView status,
                                   StepReport& report) {
  if (leader_ == kNoLeader) return compression_->start(chunk, differences.floats(), errors(), status, report);  // a, b
  return compression_->start_from(leader_, chunk, differences.floats(), errors(), status, report);
}

void RoundMethod::finish_chunk(const Chunk& chunk, GradientView /*sent*/, StatusView, StepReport&) {
  compression_->finish(chunk, errors());
}

void RoundMethod::keep_unsent() {
  compression_->commit();
  blend(place(), pulled_share(), residual_.next(), residual_.view());
}

void RoundMethod::pull(View<float> model, View<float> next_centre) { blend(place(), pull_, next_centre, model); }

/// A model comes before a score, which was taken there.
void RoundMethod::refuse_round(View<const float> model, const Status& status) {
  if (!is_finite(place(), model)) core().locate_nonfinite(model, Status{.nonfinite = 1});
  core().refuse_nonfinite(status, last_step_, "model or the score in round " + std::to_string(schedule_.rounds()));
}

void RoundMethod::require_savable() const {
  if (!schedule_.async() || at_round_) return;
  throw InvalidConfig(name() +
                      ": an asynchronous run can be saved at a round only: save when start() or step() has "
                      "just reported rounds above 0, on all ranks at the same round");
}

void RoundMethod::save_memory(State& state) const {
  state.put("rounds", static_cast<double>(schedule_.rounds()));
  state.put("steps", static_cast<double>(schedule_.async() ? 0 : schedule_.steps()));
  put_memory(state, "centre", place(), centre());
  State optimizer;
  optimizer_.save(place(), optimizer);
  state.put("optimizer", optimizer);
  if (!compresses()) return;
  residual_.save(place(), state);
  compression_->save(state);
}

void RoundMethod::require_loadable_memory(const State& state) const {
  MethodMemory::require_loadable_memory(state);
  schedule_.require_resumable(state.count("rounds"), state.count("steps"));
  Optimizer::require_loadable(state.nested("optimizer"));
  if (compresses()) compression_->require_loadable(state);
}

void RoundMethod::load_memory(const State& state) {
  schedule_.resume(state.count("rounds"), state.count("steps"));
  get_memory(state, "centre", place(), centre_.view(parameters()));
  optimizer_.load(place(), state.nested("optimizer"));
  if (compresses()) {
    residual_.load(place(), state);
    compression_->load(state);
  }
  at_round_ = true;
  newcomer_ = false;
}

void RoundMethod::do_resize(Communicator* next) {
  if (schedule_.async() && !at_round_) {
    throw InvalidConfig(name() +
                        ": an asynchronous run can be resized at a round only: do it when start() or step() "
                        "has just reported rounds above 0, on all ranks at the same round");
  }
  newcomer_ = !core().has_run();
  schedule_.resume(schedule_.rounds(), schedule_.steps());
  core().resize(next);
}

std::vector<double> RoundMethod::shared_numbers() const {
  return {static_cast<double>(schedule_.rounds()), static_cast<double>(schedule_.steps()),
          static_cast<double>(optimizer_.steps())};
}

void RoundMethod::take_numbers(std::span<const double> numbers) {
  schedule_.resume(static_cast<std::uint64_t>(numbers[0]), static_cast<std::uint64_t>(numbers[1]));
  if (newcomer_) optimizer_.set_steps(static_cast<std::uint64_t>(numbers[2]));
}

}  // namespace laconic
