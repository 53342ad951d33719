#include "methods/model_base.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"
#include "exchange/dense_sum.h"
#include "kernels/checksum/checksum.h"
#include "kernels/elementwise/elementwise.h"
#include "laconic/error.h"

namespace laconic {

StepReport ModelBase::start(View<float> model) {
  if (!core().registered()) {
    const Tensor whole{"model", model.size()};
    register_tensors({&whole, 1});
  }
  constexpr const char* kStages[] = {"of a new run", "after load", "after resize", "a second time"};
  std::vector<AgreedField> fields{{"start", kStages[static_cast<std::size_t>(stage())]},
                                  {"entries of the model", std::to_string(model.size())}};
  const bool running = stage() == Stage::running;
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
  if (stage() == Stage::running) return;
  const char* since = stage() == Stage::loaded ? " after load()" : stage() == Stage::resized ? " after resize()" : "";
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
  step_.open(tensors().size());
}

void ModelBase::begin_checked(const StepInput& input, View<float> model) {
  step_.require_none();
  require_started();
  require_input(input, model);
  input_ = input;
  input_.key.rank = static_cast<std::uint32_t>(rank());
  model_ = model;
  do_begin(input_, model_);
}

void ModelBase::require_input(const StepInput& input, View<const float> model) const {
  require_size("model", model.size(), parameters());
  if (!(input.learning_rate >= 0.0F && std::isfinite(input.learning_rate))) {
    throw InvalidConfig("learning_rate must be 0 or more and finite, got " + std::to_string(input.learning_rate));
  }
  require_coefficients(input.tensors);
}

void ModelBase::require_coefficients(std::span<const Coefficients> given) const {
  if (given.empty()) return;
  if (!takes_coefficients()) {
    throw InvalidConfig(name() + " takes no coefficients by tensor: its steps are the optimizer's (leave them out)");
  }
  require_size("coefficients", given.size(), tensors().size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto expect = [&](bool right, const char* setting, float value, const char* range) {
      if (right) return;
      throw InvalidConfig(name() + ": " + setting + " of tensor " + tensors()[i].name + " must be in " + range +
                          ", got " + std::to_string(value));
    };
    const Coefficients& each = given[i];
    expect(each.learning_rate >= 0.0F && std::isfinite(each.learning_rate), "learning_rate", each.learning_rate,
           "[0, inf)");
    expect(each.momentum >= 0.0F && each.momentum < 1.0F, "momentum", each.momentum, "[0, 1)");
    expect(each.weight_decay >= 0.0F && each.weight_decay < 1.0F, "weight_decay", each.weight_decay, "[0, 1)");
  }
}

void ModelBase::add(std::span<const TensorPart> parts) {
  step_.require_open("add()");
  step_.take(tensors(), parts);
  const auto placed = gradient_.add(place(), parts);
  try {
    do_add(placed);
  } catch (const TransportError&) {
    step_.close();  // nothing to finish
    throw;
  }
}

StepReport ModelBase::finish_step() {
  step_.require_open("finish_step()");
  step_.require_all(tensors());
  step_.close();
  do_finish();
  return do_step(input_, model_, gradient_.view(place()));
}

void ModelBase::read_out(View<const float> model, View<float> out) {
  require_size("model", model.size(), parameters());
  require_size("out", out.size(), parameters());
  do_read_out(model, out);
}

void ModelBase::average_models(View<const float> model, View<float> mean) {
  DenseSum sum(communicator(), place(), parameters());
  Status status;
  copy(place(), model, mean);
  sum.start(mean, view_of(status));
  sum.finish();
}

}  // namespace laconic
