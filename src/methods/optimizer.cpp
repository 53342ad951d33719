#include "methods/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/refusal.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "laconic/error.h"
#include "methods/state_memory.h"

namespace laconic {
namespace {

void require_range(const char* name, double value, const Interval& range, const char* usual) {
  if (range.has(value)) return;
  throw InvalidConfig(std::string("optimizer: ") + name + " must be in " + range.text() + ", got " + text_of(value) +
                      ": " + usual + " is usual");
}

float shrink_of(const OptimizerOptions& options, float learning_rate) {
  return static_cast<float>(1.0 - static_cast<double>(learning_rate) * options.weight_decay);
}

/// `decays`: the weight decay applies. That of adamw shrinks the model; otherwise it is part of the gradient.
AdamCoefficients adam_coefficients(const OptimizerOptions& options, OptimizerKind kind, float learning_rate,
                                   std::uint64_t steps, bool decays) {
  const bool decoupled = kind == OptimizerKind::adamw;
  return {.learning_rate = learning_rate,
          .weight_decay = decays && !decoupled ? static_cast<float>(options.weight_decay) : 0.0F,
          .beta1 = static_cast<float>(options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .fresh1 = static_cast<float>(1.0 - options.beta1),
          .fresh2 = static_cast<float>(1.0 - options.beta2),
          .correction1 = static_cast<float>(1.0 - std::pow(options.beta1, static_cast<double>(steps))),
          .correction2 = static_cast<float>(1.0 - std::pow(options.beta2, static_cast<double>(steps))),
          .epsilon = static_cast<float>(options.epsilon),
          .shrink = decays && decoupled ? shrink_of(options, learning_rate) : 1.0F};
}

Coefficients sgd_coefficients(const OptimizerOptions& options, float learning_rate, bool decays) {
  return {.learning_rate = learning_rate,
          .momentum = static_cast<float>(options.momentum),
          .weight_decay = decays ? static_cast<float>(options.weight_decay) : 0.0F,
          .nesterov = options.nesterov};
}

/// Of a moment, which may be empty.
View<float> part_of(const Buffer<float>& moment, std::uint64_t offset, std::uint64_t size) {
  return moment.capacity() > 0 ? moment.view().sub(offset, size) : moment.view();
}

/// Settings of SGD that Adam would silently leave out, and Adam's own.
void require_valid_adam(const OptimizerOptions& options) {
  if (options.momentum != 0.0) {
    throw Refusal({.who = "optimizer",
                   .rule = options.name + " takes no momentum (its beta1 is one)",
                   .got = std::to_string(options.momentum),
                   .remedy = "set it to 0, or use optimizer sgd"});
  }
  if (options.nesterov) {
    throw Refusal({.who = "optimizer",
                   .rule = options.name + " takes no nesterov",
                   .got = "true",
                   .remedy = "set it to false, or use optimizer sgd"});
  }
  require_range("epsilon", options.epsilon, kEpsilonRange, "1e-8");
}

}  // namespace

std::span<const std::string_view> optimizer_names() {
  static constexpr std::array<std::string_view, 4> kNames{"sgd", "adam", "adamw", "host"};
  return kNames;
}

OptimizerKind optimizer_kind(std::string_view name) {
  const auto names = optimizer_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<OptimizerKind>(found - names.begin());
  std::string known;
  for (const std::string_view each : names) known.append(known.empty() ? "" : " | ").append(each);
  throw InvalidConfig("optimizer must be one of " + known + ", got " + std::string(name));
}

Optimizer::Optimizer(OptimizerOptions options) : options_(std::move(options)), kind_(optimizer_kind(options_.name)) {
  if ((kind_ == OptimizerKind::host) != static_cast<bool>(options_.host)) {
    throw InvalidConfig("optimizer host and the host's step go together, got optimizer " + options_.name +
                        (options_.host ? " with one" : " without one") + ": set both, or neither");
  }
  require_range("momentum", options_.momentum, kMomentumRange, "0.9");
  require_range("weight_decay", options_.weight_decay, kWeightDecayRange, "0");
  if (options_.weight_decay_on != "all" && options_.weight_decay_on != "matrices") {
    throw InvalidConfig("optimizer: weight_decay_on must be all or matrices, got \"" + options_.weight_decay_on + "\"");
  }
  require_range("beta1", options_.beta1, kBetaRange, "0.9");
  require_range("beta2", options_.beta2, kBetaRange, "0.999");
  if (is_adam(kind_)) require_valid_adam(options_);
  if (options_.nesterov && options_.momentum == 0.0) {
    throw InvalidConfig("optimizer: nesterov needs a momentum above 0, got 0: set momentum, 0.9 for example");
  }
}

void Optimizer::prepare(Place& place, std::uint64_t parameters) {
  const bool adam = is_adam(kind_);
  const bool keeps = !options_.host && (adam || options_.momentum > 0.0);
  first_.reserve(place, keeps ? parameters : 0);
  second_.reserve(place, keeps && adam ? parameters : 0);
  for (const View<float>& moment : memory()) fill(place, 0.0F, moment);
}

void Optimizer::prepare(Place& place, std::span<const Tensor> tensors) {
  std::uint64_t parameters = 0;
  runs_.clear();
  for (const Tensor& tensor : tensors) {
    const bool decayed = decays(options_, tensor);
    if (runs_.empty() || runs_.back().decays != decayed) runs_.push_back({parameters, 0, decayed});
    runs_.back().size += tensor.size;
    parameters += tensor.size;
  }
  prepare(place, parameters);
}

void Optimizer::copy_from(Place& place, const Optimizer& other) {
  steps_ = other.steps_;
  runs_ = other.runs_;
  first_.reserve(place, other.first_.capacity());
  second_.reserve(place, other.second_.capacity());
  copy(place, other.first_.view(), first_.view());
  copy(place, other.second_.view(), second_.view());
}

float Optimizer::shrink(float learning_rate) const {
  return kind_ == OptimizerKind::adamw ? shrink_of(options_, learning_rate) : 1.0F;
}

void Optimizer::step(Place& place, float learning_rate, View<const float> gradient, View<float> model) {
  count_step();
  if (is_host()) return options_.host(gradient, model);
  step_part(place, learning_rate, 0, gradient, model);
}

template <class Work>
void Optimizer::each_run(std::uint64_t offset, std::uint64_t size, const Work& work) const {
  if (runs_.empty()) return work(Run{offset, size});
  for (const Run& run : runs_) {
    const std::uint64_t first = std::max(offset, run.offset);
    const std::uint64_t last = std::min(offset + size, run.offset + run.size);
    if (first < last) work(Run{first, last - first, run.decays});
  }
}

void Optimizer::step_part(Place& place, float learning_rate, std::uint64_t offset, View<const float> gradient,
                          View<float> model) {
  each_run(offset, model.size(), [&](const Run& run) {
    const auto here = [&](auto view) { return view.sub(run.offset - offset, run.size); };
    const View<float> first = part_of(first_, run.offset, run.size);
    if (is_adam(kind_)) {
      adam_step(place, adam_coefficients(options_, kind_, learning_rate, steps_, run.decays), here(gradient), first,
                part_of(second_, run.offset, run.size), here(model));
    } else {
      sgd_step(place, sgd_coefficients(options_, learning_rate, run.decays), here(gradient), first, here(model));
    }
  });
}

void Optimizer::try_part(Place& place, float learning_rate, std::uint64_t offset, View<const float> gradient,
                         const Optimizer& from, View<const float> before, View<float> after) {
  each_run(offset, after.size(), [&](const Run& run) {
    const auto here = [&](auto view) { return view.sub(run.offset - offset, run.size); };
    const auto moment = [&](const Buffer<float>& buffer) { return part_of(buffer, run.offset, run.size); };
    const StepMemory<const float> old{moment(from.first_), moment(from.second_), here(before)};
    const StepMemory<float> next{moment(first_), moment(second_), here(after)};
    if (is_adam(kind_)) {
      try_adam_step(place, adam_coefficients(options_, kind_, learning_rate, steps_, run.decays), here(gradient), old, next);
    } else {
      try_sgd_step(place, sgd_coefficients(options_, learning_rate, run.decays), here(gradient), old, next);
    }
  });
}

void Optimizer::save(Place& place, State& state) const {
  state.put("steps", static_cast<double>(steps_));
  if (first_.capacity() > 0) put_memory(state, "first", place, first_.view());
  if (second_.capacity() > 0) put_memory(state, "second", place, second_.view());
}

void Optimizer::load(Place& place, const State& state) {
  steps_ = state.count("steps");
  if (first_.capacity() > 0) get_memory(state, "first", place, first_.view());
  if (second_.capacity() > 0) get_memory(state, "second", place, second_.view());
}

std::vector<View<float>> Optimizer::memory() const {
  std::vector<View<float>> views;
  for (const Buffer<float>* moment : {&first_, &second_}) {
    if (moment->capacity() > 0) views.push_back(moment->view());
  }
  return views;
}

}  // namespace laconic
