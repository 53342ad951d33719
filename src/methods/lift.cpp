#include "methods/lift.h"

#include <limits>
#include <utility>

#include "base/refusal.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"

namespace laconic {

LiftedMethod::LiftedMethod(std::unique_ptr<GradientBase> inner, const OptimizerOptions& optimizer, bool guard,
                           Communicator& communicator, Place& place)
    : ModelBase(inner->name(), communicator, place),
      inner_(std::move(inner)),
      optimizer_(optimizer),
      guard_(guard),
      optimizer_before_(optimizer) {
  if (!guard_ || !optimizer.host) return;
  throw Refusal({.who = name(),
                 .rule = "step_guard = on needs optimizer sgd or adam",
                 .got = "host",
                 .remedy = "undoing a step restores the optimizer's moments, which a host keeps itself; use sgd or "
                           "adam, or step_guard = off"});
}

void LiftedMethod::prepare() {
  if (core().chunk_entries_set() > 0) inner_->set_chunk_entries(core().chunk_entries_set());
  inner_->register_tensors(tensors());
  optimizer_.prepare(place(), tensors());
  if (guard_) before_.reserve(place(), parameters());
}

StepReport LiftedMethod::do_start(View<float> /*model*/) {
  inner_->mark_running();
  return {};
}

void LiftedMethod::do_begin(const StepInput& input, View<const float> /*model*/) {
  inner_->set_nonfinite_policy(policy());
  inner_->begin_exchange(input.key);
}

void LiftedMethod::do_finish() {
  inner_->exchange().finish();
  report_ = inner_->conclude();
}

StepReport LiftedMethod::do_step(const StepInput& input, View<float> model, View<float> gradient) {
  if (report_.skipped) {
    ++core().skipped_steps;
    return report_;
  }
  report_.rounds = 1;
  if (guard_) {
    guarded_step(input.learning_rate, model, gradient);
  } else {
    optimizer_.step(place(), input.learning_rate, gradient, model);
  }
  return report_;
}

void LiftedMethod::guarded_step(float learning_rate, View<float> model, View<const float> gradient) {
  const View<float> before = before_.view(parameters());
  copy(place(), model, before);
  optimizer_before_.copy_from(place(), optimizer_);
  optimizer_.step(place(), learning_rate, gradient, model);
  const double squares = squared_distance(place(), model, before);
  report_.undone = !(squares < largest_step_);  // a length that is no number is too long
  if (report_.undone) {
    copy(place(), before, model);
    std::swap(optimizer_, optimizer_before_);
  } else if (squares > 0.0) {
    largest_step_ = 100.0 * squares;  // with zero for a limit every later step would be undone
  }
}

void LiftedMethod::do_read_out(View<const float> model, View<float> out) { copy(place(), model, out); }

void LiftedMethod::save_memory(State& state) const {
  state.put("inner", inner_->save());
  State optimizer;
  optimizer_.save(place(), optimizer);
  state.put("optimizer", optimizer);
  state.put("largest step", largest_step_);
}

void LiftedMethod::require_loadable_memory(const State& state) const {
  MethodMemory::require_loadable_memory(state);
  inner_->require_loadable(state.nested("inner"));
  Optimizer::require_loadable(state.nested("optimizer"));
  state.require_in("largest step", 0.0, std::numeric_limits<double>::max());
}

void LiftedMethod::load_memory(const State& state) {
  inner_->load(state.nested("inner"));
  optimizer_.load(place(), state.nested("optimizer"));
  largest_step_ = state.number("largest step");
}

std::vector<double> LiftedMethod::shared_numbers() const {
  return {static_cast<double>(optimizer_.steps()), largest_step_};
}

void LiftedMethod::take_numbers(std::span<const double> numbers) {
  optimizer_.set_steps(static_cast<std::uint64_t>(numbers[0]));
  largest_step_ = numbers[1];
}

void LiftedMethod::do_resize(Communicator* next) {
  inner_->resize(next);
  core().resize(next);
}

}  // namespace laconic
