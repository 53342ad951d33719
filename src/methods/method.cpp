#include "laconic/method.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "exchange/dense_sum.h"
#include "kernels/checksum/checksum.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "laconic/error.h"
#include "transport/agreement.h"

namespace laconic {
namespace {

/// Whoever was there before tells the newcomers: the lowest such rank. Collective.
int lowest_old_rank(Communicator& communicator, bool newcomer) {
  std::vector<float> ran_before(static_cast<std::size_t>(communicator.size()));
  const float mine = newcomer ? 0.0F : 1.0F;
  communicator.all_gather(as_bytes(View<const float>(&mine, 1)), as_writable_bytes(View<float>(ran_before))).wait();
  const auto first = std::find(ran_before.begin(), ran_before.end(), 1.0F);
  if (first == ran_before.end()) {
    throw InvalidConfig("resize found no rank that ran before: start a new run instead");
  }
  return static_cast<int>(first - ran_before.begin());
}

}  // namespace

Method::Method(std::string name, Communicator& communicator, Place& place)
    : name_(std::move(name)), communicator_(&communicator), place_(&place) {}

void Method::register_tensors(std::span<const Tensor> tensors) {
  if (registered_) {
    throw InvalidConfig(name_ + " was told its tensors already: make a new method for another model");
  }
  tensors_.assign(tensors.begin(), tensors.end());
  require_agreement(*communicator_, agreed_fields());
  for (const Tensor& tensor : tensors_) parameters_ += tensor.size;
  registered_ = true;
  prepare();
}

State Method::save() const {
  State state;
  state.put("method " + name_, 1.0);
  state.put("rank", static_cast<double>(rank()));
  state.put("ranks", static_cast<double>(ranks()));
  state.put("parameters", static_cast<double>(parameters_));
  save_memory(state);
  return state;
}

void Method::load(const State& state) {
  const auto refuse = [](const std::string& what) { throw InvalidConfig("saved state " + what); };
  if (!registered_) refuse("needs registered tensors before it is loaded: call register_tensors first");
  if (!state.has("method " + name_))
    refuse("is of another method than " + name_ + ": load it into the method that saved it");
  const auto expect = [&](const char* field, double mine, const char* remedy) {
    if (state.number(field) == mine) return;
    refuse("has " + std::string(field) + " = " + std::to_string(static_cast<std::uint64_t>(state.number(field))) +
           ", this is " + std::to_string(static_cast<std::uint64_t>(mine)) + ": " + remedy);
  };
  expect("ranks", ranks(), "load it on as many ranks, then resize");
  expect("rank", rank(), "each rank loads its own");
  expect("parameters", static_cast<double>(parameters_), "load it for the same model");
  load_memory(state);
  ran_ = true;
}

void Method::resize(Communicator* next) {
  LACONIC_CHECK(registered_ == true);
  if (ran_) {
    for (const View<float>& view : owed()) {
      DenseSum mean(*communicator_, *place_, view.size());
      Status status;
      mean.start(view, view_of(status));
      mean.finish();
    }
  }
  if (next == nullptr) return;
  communicator_ = next;
  require_agreement(*next, agreed_fields());
  const int teller = lowest_old_rank(*next, !ran_);
  for (const auto& views : {owed(), shared()}) {
    for (const View<float>& view : views) next->broadcast(as_writable_bytes(view), teller).wait();
  }
  ran_ = true;
  regrouped();
}

std::vector<AgreedField> Method::agreed_fields() const {
  std::vector<AgreedField> fields{{"method", name_}, {"number of tensors", std::to_string(tensors_.size())}};
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    fields.push_back({"tensor " + std::to_string(i), tensors_[i].name + " of " + std::to_string(tensors_[i].size)});
  }
  return fields;
}

double Method::residual_norm() {
  const auto memory = owed();
  if (memory.empty()) return 0.0;
  Status status;
  double squares = 0.0;
  sum_of_squares(*place_, memory.front(), View<double>(&squares, 1), view_of(status));
  return std::sqrt(squares);
}

void Method::locate_nonfinite(View<const float> gradient, const Status& status) {
  bad_tensor_ = kNoTensor;
  if (status.nonfinite == 0) return;
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    Status found;
    find_nonfinite(*place_, gradient.sub(offset, tensors_[i].size), view_of(found));
    if (found.nonfinite != 0) {
      bad_tensor_ = i;
      return;
    }
    offset += tensors_[i].size;
  }
}

/// Each rank says which tensor it found. Payloads told whose flag was up; after an engine's own sum, where no payload
/// has a flag, it is the lowest rank that found a tensor.
void Method::refuse_nonfinite(const Status& status, std::uint32_t step) {
  std::vector<std::uint64_t> found(static_cast<std::size_t>(ranks()));
  communicator_
      ->all_gather(as_bytes(View<const std::uint64_t>(&bad_tensor_, 1)), as_writable_bytes(View<std::uint64_t>(found)))
      .wait();
  std::size_t culprit = 0;
  if (status.nonfinite_rank != 0) {
    culprit = status.nonfinite_rank - 1;
  } else {
    const auto first = std::find_if(found.begin(), found.end(), [](std::uint64_t each) { return each != kNoTensor; });
    if (first != found.end()) culprit = static_cast<std::size_t>(first - found.begin());
  }
  throw InvalidConfig(nonfinite_message(static_cast<int>(culprit), found[culprit], step));
}

void Method::refuse_own_nonfinite(std::uint32_t step) {
  const std::string message = nonfinite_message(rank(), bad_tensor_, step);
  communicator_->fail(message);
  throw InvalidConfig(message);
}

std::string Method::nonfinite_message(int culprit, std::uint64_t tensor, std::uint32_t step) const {
  return name_ + ": rank " + std::to_string(culprit) + " has a NaN or an Inf " +
         (tensor == kNoTensor ? std::string("in what it remembers or in a sum")
                              : "in the gradient of tensor " + tensors_[tensor].name) +
         " at step " + std::to_string(step) +
         ": lower the learning rate, clip gradients, or set the non-finite policy to skip";
}

void GradientMethod::begin(StepKey key) {
  if (open_) throw InvalidConfig(name() + ": begin() before finish() of the step before: finish it first");
  if (!registered()) throw InvalidConfig(name() + ": begin() before register_tensors(): tell the tensors first");
  key_ = key;
  open_ = true;
  parts_.assign(tensors().size(), {});
  arrived_.assign(tensors().size(), false);
}

void GradientMethod::add(std::span<const TensorPart> parts) {
  if (!open_) throw InvalidConfig(name() + ": add() before begin(): begin the step first");
  for (const TensorPart& part : parts) {
    if (part.tensor >= tensors().size()) {
      throw InvalidConfig(name() + ": tensor " + std::to_string(part.tensor) + " was added, there are " +
                          std::to_string(tensors().size()) + ": tensors count from 0 in registration order");
    }
    const Tensor& tensor = tensors()[part.tensor];
    require_size(tensor.name, part.values.size(), tensor.size);
    if (arrived_[part.tensor]) throw InvalidConfig(name() + ": tensor " + tensor.name + " was added twice in a step");
    arrived_[part.tensor] = true;
    parts_[part.tensor] = part.values;
  }
}

StepReport GradientMethod::finish() {
  if (!open_) throw InvalidConfig(name() + ": finish() before begin(): begin the step first");
  for (std::size_t i = 0; i < arrived_.size(); ++i) {
    if (!arrived_[i])
      throw InvalidConfig(name() + ": tensor " + tensors()[i].name + " did not arrive in this step: add it");
  }
  open_ = false;
  // Tensors that lie one after another, as in a flat view, are worked on where they are.
  bool contiguous = true;
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    contiguous = contiguous && parts_[i].data() == parts_[i - 1].data() + parts_[i - 1].size();
  }
  if (contiguous) {
    const float* first = parts_.empty() ? nullptr : parts_[0].data();
    return run(View<float>(const_cast<float*>(first), parameters()));
  }
  flat_.resize(parameters());
  std::uint64_t offset = 0;
  for (const View<float>& part : parts_) {
    copy(place(), part, View<float>(flat_).sub(offset, part.size()));
    offset += part.size();
  }
  const StepReport report = run(flat_);
  offset = 0;
  for (const View<float>& part : parts_) {
    copy(place(), View<const float>(flat_).sub(offset, part.size()), part);
    offset += part.size();
  }
  return report;
}

StepReport GradientMethod::reduce(StepKey key, View<float> gradient) {
  if (!registered()) {
    const Tensor whole{"gradient", gradient.size()};
    register_tensors({&whole, 1});
  }
  require_size("gradient", gradient.size(), parameters());
  key_ = key;
  return run(gradient);
}

StepReport GradientMethod::run(View<float> gradient) {
  StepReport report;
  Status status;
  status.threshold = 0.0F;
  aggregate(key_, gradient, view_of(status), report);
  mark_ran();
  if (status.nonfinite == 0) {
    commit();
    return report;
  }
  if (policy_ == NonfinitePolicy::error) refuse_nonfinite(status, key_.step);
  fill(place(), 0.0F, gradient);
  ++skipped_steps_;
  report.skipped = true;
  return report;
}

StepReport ModelMethod::start(View<float> model) {
  if (!registered()) {
    const Tensor whole{"model", model.size()};
    register_tensors({&whole, 1});
  }
  require_size("model", model.size(), parameters());
  return do_start(model);
}

void ModelMethod::require_same_start(View<const float> model) {
  const std::vector<AgreedField> fields{
      {"checksum of the start point", std::to_string(checksum(place(), as_bytes(model)))}};
  require_agreement(communicator(), fields);
}

StepReport ModelMethod::step(const StepInput& input, View<float> model, View<float> gradient) {
  require_size("model", model.size(), parameters());
  require_size("gradient", gradient.size(), parameters());
  if (!(input.learning_rate >= 0.0F && std::isfinite(input.learning_rate))) {
    throw InvalidConfig("learning_rate must be 0 or more and finite, got " + std::to_string(input.learning_rate));
  }
  mark_ran();
  return do_step(input, model, gradient);
}

void ModelMethod::read_out(View<const float> model, View<float> out) {
  require_size("model", model.size(), parameters());
  require_size("out", out.size(), parameters());
  do_read_out(model, out);
}

}  // namespace laconic
