#include "methods/model_base.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "exchange/dense_sum.h"
#include "kernels/checksum/checksum.h"
#include "kernels/elementwise/elementwise.h"
#include "laconic/error.h"
#include "methods/optimizer.h"

namespace laconic {

StepReport ModelBase::start(View<float> model) {
  if (!core().registered()) {
    const Tensor whole{"model", model.size()};
    register_tensors({&whole, 1});
  }
  constexpr const char* kPhases[] = {"of a new run", "after load", "after resize", "a second time"};
  std::vector<AgreedField> fields{{"start", kPhases[static_cast<std::size_t>(phase())]},
                                  {"entries of the model", std::to_string(model.size())}};
  const bool running = phase() == Phase::running;
  if (!running) std::ranges::move(common_fields(model), std::back_inserter(fields));
  require_agreement(communicator(), fields);
  if (running) {
    throw InvalidConfig(name() + ": start() was called already: make a new method for a new run, or load a state");
  }
  require_size("model", model.size(), parameters());
  StepReport report = do_start(model);
  mark_running();
  return report;
}

std::vector<AgreedField> ModelBase::common_fields(View<const float> model) {
  return {checksum_field("the start point", model)};
}

AgreedField ModelBase::checksum_field(const std::string& what, View<const float> values) {
  return {"checksum of " + what, std::to_string(checksum(place(), as_bytes(values)))};
}

void ModelBase::require_started() const {
  if (phase() == Phase::running) return;
  const char* since = phase() == Phase::loaded ? " after load()" : phase() == Phase::resized ? " after resize()" : "";
  throw InvalidConfig(name() + ": a step" + since + " was begun before start(): call start() on every rank first");
}

StepReport ModelBase::step(const StepInput& input, View<float> model, View<float> gradient) {
  require_size("gradient", gradient.size(), parameters());
  begin_checked(input, model);
  do_add(gradient);
  do_finish();
  return do_step(input_, model_, gradient);
}

void ModelBase::begin_step(const StepInput& input, View<float> model) {
  begin_checked(input, model);
  gradient_.begin(tensors());
  open_step().open(tensors().size());
}

void ModelBase::begin_checked(const StepInput& input, View<float> model) {
  open_step().require_none();
  require_started();
  require_input(input, model);
  input_ = input;
  input_.key.rank = static_cast<std::uint32_t>(rank());
  model_ = model;
  do_begin(input_, model_);
}

void ModelBase::require_input(const StepInput& input, View<const float> model) const {
  require_size("model", model.size(), parameters());
  if (!kLearningRateRange.has(input.learning_rate)) {
    throw InvalidConfig("learning_rate must be 0 or more and finite, got " + std::to_string(input.learning_rate));
  }
  require_coefficients(input.tensors);
  require_shrink(input.shrink);
}

void ModelBase::require_coefficients(std::span<const Coefficients> given) const {
  if (given.empty()) return;
  if (!takes_coefficients()) {
    throw InvalidConfig(name() + " takes no coefficients by tensor: its steps are the optimizer's (leave them out)");
  }
  require_size("coefficients", given.size(), tensors().size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto require_in = [&](const Interval& range, const char* setting, float value) {
      if (range.has(value)) return;
      throw InvalidConfig(name() + ": " + setting + " of tensor " + tensors()[i].name + " must be in " + range.text() +
                          ", got " + std::to_string(value));
    };
    const Coefficients& each = given[i];
    require_in(kLearningRateRange, "learning_rate", each.learning_rate);
    require_in(kMomentumRange, "momentum", each.momentum);
    require_in(kWeightDecayRange, "weight_decay", each.weight_decay);
  }
}

void ModelBase::require_shrink(std::span<const float> given) const {
  if (given.empty()) return;
  if (!takes_shrink()) {
    throw InvalidConfig(name() + " takes no shrink factors: they are for methods that send the steps of a host's " +
                        "optimizer (leave them out)");
  }
  require_size("shrink", given.size(), tensors().size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (kShrinkRange.has(given[i])) continue;
    throw InvalidConfig(name() + ": shrink of tensor " + tensors()[i].name + " must be in " + kShrinkRange.text() +
                        ", got " + std::to_string(given[i]) + ": it is 1 - learning rate * weight decay");
  }
}

StepReport ModelBase::finish_step() {
  open_step().require_open("finish_step()");
  open_step().require_all(tensors());
  open_step().close();
  do_finish();
  return do_step(input_, model_, gradient_.view(place()));
}

void ModelBase::read_out(View<const float> model, View<float> out) {
  require_size("model", model.size(), parameters());
  require_size("out", out.size(), parameters());
  do_read_out(model, out);
}

void ModelBase::average_models(View<const float> model, View<float> mean) {
  copy(place(), model, mean);
  average_over_ranks(communicator(), place(), mean);
}

}  // namespace laconic
