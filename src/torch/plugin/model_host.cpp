#include "torch/plugin/model_host.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/transfer.h"
#include "exchange/exchange.h"
#include "kernels/elementwise/elementwise.h"
#include "laconic/error.h"
#include "methods/state_memory.h"
#include "torch/plugin/redeal.h"

namespace laconic::plugin {

ModelHost::ModelHost(std::shared_ptr<Communicator> communicator, Workplace work, std::uint64_t seed,
                     ParameterSet the_parameters, std::string_view method, const MethodOptions& options,
                     HostCalls calls, NonfinitePolicy policy)
    : OptimizerHost(std::move(communicator), std::move(work), seed, std::move(the_parameters)),
      name_(method),
      traits_(method_row(method).traits),
      options_(options),
      calls_(std::move(calls)),
      policy_(policy),
      async_(options.pace.value_or("") == "async"),
      size_(parameters().size()),
      group_of_(parameters().tensors().size(), 0),
      coefficients_(group_of_.size()),
      shrink_(group_of_.size(), 1.0F) {
  require_fitting_calls();
  model_.reserve(place(), size_);
  gradient_.reserve(place(), size_);
  agree(std::array<AgreedField, 3>{{{"nonfinite", policy_ == NonfinitePolicy::error ? "error" : "skip"},
                                    {"scoring", calls_.scoring ? "a function" : "none"},
                                    {"after_round", calls_.after_round ? "a function" : "none"}}});
  method_ = make_model_method(method, options, optimizer_options(), this->communicator(), place());
  if (calls_.scoring) {
    method_->set_scoring([this](View<const float> /*model*/, View<float> gradient) { score(gradient); });
  }
  method_->set_after_round([this](const StepReport&) { after_round(); });
  method_->register_tensors(parameters().tensors());
  // Whoever went on and ended would break groups that others are still connecting. Not after start, which may wait in a
  // round for ranks that have gone on.
  this->communicator().barrier().wait();
  const CallOrder order(stream());
  parameters().read(place(), model());
  set_finished(method_->start(model()).finished);
  write_model();
}

ModelHost::~ModelHost() = default;

void ModelHost::require_fitting_calls() const {
  if (!calls_.optimizer && !is_sgd()) {
    throw InvalidConfig(name_ + " needs a call of the loop's optimizer, got none: give one");
  }
  if (calls_.scoring && !traits_.takes_scoring) {
    throw InvalidConfig(name_ + " takes no scoring function: leave it out");
  }
}

OptimizerOptions ModelHost::optimizer_options() {
  OptimizerOptions optimizer;
  if (is_sgd()) return optimizer;
  optimizer.name = "host";
  optimizer.host = [this](View<const float> /*gradient*/, View<float> model) { move(model); };
  return optimizer;
}

/// What the loop's optimizer made of the parameters.
void ModelHost::move(View<float> model) {
  {
    const Stopwatch watch(costs().host_seconds);
    calls_.optimizer();
  }
  const Stopwatch watch(costs().copy_seconds);
  parameters().read(place(), model);
  parameters().note_written();
}

void ModelHost::score(View<float> gradient) {
  write_model();  // the round's own point, proximity included
  const auto own = parameters().take_gradients();
  try {
    calls_.scoring(static_cast<std::uint32_t>(counted().rounds));
    parameters().read_gradients(place(), 1.0F, {}, gradient);
  } catch (...) {
    parameters().give_gradients(own);
    throw;
  }
  parameters().give_gradients(own);
}

void ModelHost::after_round() {
  ++counted().rounds;
  if (!calls_.after_round) return;
  write_model();
  calls_.after_round();
  side().barrier().wait();
}

/// Methods that send updates keep the point themselves: a change of the parameters would be lost.
void ModelHost::refresh_model() {
  const std::string* changed = parameters().changed();
  if (changed == nullptr) return;
  if (traits_.sends_updates) {
    throw InvalidConfig("parameter " + *changed + " was changed since the last step, but " + name_ +
                        " keeps the point itself: load the optimizer's state with the model's, or make a new one");
  }
  parameters().read(place(), model());
  parameters().note_written();
}

void ModelHost::write_model() {
  const Stopwatch watch(costs().copy_seconds);
  parameters().write(place(), model());
}

void ModelHost::set_groups(std::vector<std::uint32_t> group_of_parameter) {
  LACONIC_CHECK(group_of_parameter.size() == parameters().tensors().size());
  group_of_ = std::move(group_of_parameter);
}

/// A parameter that was frozen meanwhile only gets what it is still owed.
void ModelHost::take_coefficients(std::span<const Coefficients> groups) {
  for (std::size_t i = 0; i < coefficients_.size(); ++i) {
    LACONIC_CHECK(group_of_[i] < groups.size());
    coefficients_[i] = groups[group_of_[i]];
    if (parameters().trains(i)) continue;
    coefficients_[i].learning_rate = 0.0F;
    coefficients_[i].weight_decay = 0.0F;
  }
}

/// The loop's optimizer does not move a parameter that was frozen meanwhile, nor does its weight decay.
void ModelHost::take_shrink(std::span<const float> groups) {
  if (groups.empty()) return std::fill(shrink_.begin(), shrink_.end(), 1.0F);
  for (std::size_t i = 0; i < shrink_.size(); ++i) {
    LACONIC_CHECK(group_of_[i] < groups.size());
    shrink_[i] = parameters().trains(i) ? groups[group_of_[i]] : 1.0F;
  }
}

StepReport ModelHost::do_step(const HostStepInput& input) {
  refresh_model();
  {
    const Stopwatch watch(costs().copy_seconds);
    const bool in_place = !is_sgd();  // the loop's optimizer must see them unscaled too
    if (in_place && input.scaling.defined()) parameters().scale_gradients(input.scaling);
    if (traits_.sends_updates && in_place) parameters().complete_gradients();
    if (in_place && input.factor != 1.0F) parameters().scale_gradients(input.factor);
    parameters().read_gradients(place(), in_place ? 1.0F : input.factor, in_place ? at::Tensor() : input.scaling,
                                gradient());
  }
  method_->set_nonfinite_policy(input.skips ? NonfinitePolicy::skip : policy_);
  StepInput step{.key = key(), .loss = input.loss};
  if (is_sgd()) {
    take_coefficients(input.groups);
    step.tensors = coefficients_;
  } else if (traits_.sends_updates) {
    take_shrink(input.shrink);
    step.shrink = shrink_;
  }
  const std::uint64_t rounds = counted().rounds;
  const StepReport report = method_->step(step, model(), gradient());
  if (counted().rounds == rounds)
    counted().rounds += report.rounds;  // a method that meets in every step tells no round
  const bool decays = report.skipped && traits_.sends_updates;  // weight decay alone, as on the ranks that stepped
  if (report.rounds > 0 || moves_every_step() || decays) write_model();
  return report;
}

void ModelHost::do_enter_read_out() {
  refresh_model();
  kept_.reserve(place(), size_);
  parameters().read(place(), kept_.view(size_));
  method_->read_out(model(), gradient());
  parameters().write(place(), gradient());
}

void ModelHost::do_leave_read_out() { parameters().write(place(), kept_.view(size_)); }

void ModelHost::do_save(State& state) {
  state.put("method", method_->save());
  if (!reads_out()) refresh_model();
  put_memory(state, "model", place(), View<const float>(model()));
}

OptimizerHost::Change ModelHost::prepare_load(const State& state) {
  State expected;
  put_memory(expected, "model", place(), View<const float>(model()));
  state.require_entries_of(expected);
  State memory = state.nested("method");
  method_->require_loadable(memory);
  return [this, &state, memory = std::move(memory)] {
    method_->load(memory);
    get_memory(state, "model", place(), model());
    write_model();
  };
}

OptimizerHost::Change ModelHost::prepare_redeal(const std::vector<State>& saved) {
  std::vector<State> states;
  for (const State& each : saved) states.push_back(each.nested("method"));
  const MethodMaker make = [&](Communicator& communicator, Place& place) {
    return make_model_method(name_, options_, optimizer_options(), communicator, place);
  };
  std::vector<float> dealt(traits_.sends_updates ? size_ : 0);
  const auto at = static_cast<std::size_t>(rank());
  // What this rank has moved by since the last meeting stays its own.
  if (!dealt.empty() && at < saved.size()) saved[at].get("model", View<float>(dealt));
  State mine = redealt(states, rank(), ranks(), parameters().tensors(), make, View<float>(dealt));
  method_->require_loadable(mine);
  if (dealt.empty()) dealt = dealt_model(saved, mine);
  return [this, mine = std::move(mine), dealt = std::move(dealt)] {
    method_->load(mine);
    copy_from_cpu(place(), dealt.data(), model());
    write_model();
  };
}

/// Of round methods each rank keeps its own, and who comes begins at the centre; of psync, which has none, all go on
/// from the mean.
std::vector<float> ModelHost::dealt_model(const std::vector<State>& saved, const State& mine) const {
  std::vector<float> model(size_);
  const auto at = static_cast<std::size_t>(rank());
  if (traits_.meets_in_rounds) {
    if (at < saved.size()) {
      saved[at].get("model", View<float>(model));
    } else {
      mine.get("centre", View<float>(model));
    }
    return model;
  }
  Place here({.threads = 1});  // saved states lie in CPU memory
  std::vector<float> each(size_);
  for (const State& state : saved) {
    state.get("model", View<float>(each));
    axpy(here, 1.0F, View<const float>(each), View<float>(model));
  }
  divide(here, static_cast<float>(saved.size()), View<float>(model));
  return model;
}

/// An asynchronous run may join a round here, which moves the model.
void ModelHost::do_go_on() {
  set_finished(method_->start(model()).finished);
  write_model();
}

}  // namespace laconic::plugin
