#include "torch/plugin/parameter_set.h"

#include <c10/core/GradMode.h>

#include <utility>

#include "kernels/elementwise/elementwise.h"
#include "laconic/error.h"
#include "torch/plugin/tensors.h"

namespace laconic::plugin {
namespace {

/// Whether the place reaches the tensor, which has no gaps.
bool is_reached(const Place& place, const at::Tensor& tensor) {
  return (place.device() == Device::cpu ? tensor.is_cpu() : tensor.is_cuda()) && tensor.is_contiguous();
}
/// Whether kernels of the place can work on the tensor itself, as floats.
bool is_plain(const Place& place, const at::Tensor& tensor) {
  return is_reached(place, tensor) && tensor.scalar_type() == at::kFloat;
}

void require_usable(const std::string& name, const at::Tensor& parameter, const at::Tensor& first) {
  const auto refuse = [&](const std::string& what) { throw InvalidConfig("parameter " + name + " " + what); };
  const at::ScalarType type = parameter.scalar_type();
  if (parameter.layout() != at::kStrided) refuse("is sparse; methods take dense parameters");
  if (type != at::kFloat && type != at::kHalf && type != at::kBFloat16) {
    refuse(std::string("has type ") + at::toString(type) +
           "; methods work in float32 and take float32, float16 and bfloat16: convert the model");
  }
  if (parameter.device() != first.device()) {
    refuse("lies on " + parameter.device().str() + ", others on " + first.device().str() +
           ": methods take parameters of one device; make an optimizer for each device");
  }
}

/// `flat` as a tensor of the other's shape.
at::Tensor shaped(View<float> flat, const at::Tensor& like) { return borrowed_floats(flat).view(like.sizes()); }

void bring(Place& place, const at::Tensor& from, View<float> to) {
  if (is_plain(place, from)) {
    copy(place, float_view(from, "a parameter or its gradient"), to);
  } else {
    shaped(to, from).copy_(from);
  }
}

}  // namespace

ParameterSet::ParameterSet(std::vector<std::string> names, std::vector<at::Tensor> parameters)
    : parameters_(std::move(parameters)), offsets_{0} {
  if (parameters_.empty()) throw InvalidConfig("there are no parameters to train: all are frozen, or none was given");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    require_usable(names[i], parameters_[i], parameters_.front());
    tensors_.push_back({std::move(names[i]), static_cast<std::uint64_t>(parameters_[i].numel())});
    offsets_.push_back(offsets_.back() + tensors_.back().size);
  }
  versions_.resize(parameters_.size());
  note_written();
}

void ParameterSet::set_frozen(std::vector<std::string> names, std::vector<at::Tensor> frozen) {
  frozen_names_ = std::move(names);
  frozen_ = std::move(frozen);
}

void ParameterSet::follow(std::vector<at::Tensor> parameters, std::vector<bool> trained) {
  if (parameters.size() != parameters_.size() || trained.size() != parameters_.size()) {
    throw InvalidConfig("the model had " + std::to_string(parameters_.size()) + " parameters and has " +
                        std::to_string(parameters.size()) + " now: make a new optimizer for another model");
  }
  const c10::NoGradGuard no_graph;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters[i].is_same(parameters_[i])) continue;
    const bool changed = versions_[i] != static_cast<std::uint32_t>(parameters_[i]._version()) ||
                         !at::equal(parameters_[i].cpu(), parameters[i].cpu());
    parameters_[i] = std::move(parameters[i]);
    versions_[i] = static_cast<std::uint32_t>(parameters_[i]._version()) - (changed ? 1 : 0);
  }
  trained_ = std::move(trained);
}

void ParameterSet::require_frozen() const {
  for (std::size_t i = 0; i < frozen_.size(); ++i) {
    if (!frozen_[i].grad().defined()) continue;
    throw InvalidConfig("parameter " + frozen_names_[i] +
                        " was frozen when the optimizer was made and has a gradient now: make a new optimizer");
  }
}

void ParameterSet::require_same_size(std::size_t i) const {
  const auto now = static_cast<std::uint64_t>(parameters_[i].numel());
  if (now == tensors_[i].size) return;
  throw InvalidConfig("parameter " + tensors_[i].name + " had " + std::to_string(tensors_[i].size) +
                      " entries and has " + std::to_string(now) + " now: make a new optimizer for another model");
}

void ParameterSet::read(Place& place, View<float> flat) const {
  const c10::NoGradGuard no_graph;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    require_same_size(i);
    bring(place, parameters_[i], flat.sub(offsets_[i], tensors_[i].size));
  }
}

void ParameterSet::write(Place& place, View<const float> flat) {
  const c10::NoGradGuard no_graph;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    require_same_size(i);
    const View<const float> values = flat.sub(offsets_[i], tensors_[i].size);
    if (is_plain(place, parameters_[i])) {
      copy(place, values, float_view(parameters_[i], "a parameter"));
      parameters_[i].unsafeGetTensorImpl()->bump_version();  // a graph that saved the old values must not use these
    } else {
      parameters_[i].copy_(
          shaped({const_cast<float*>(values.data()), values.size(), values.device()}, parameters_[i]));
    }
  }
  note_written();
}

const std::string* ParameterSet::changed() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (static_cast<std::uint32_t>(parameters_[i]._version()) != versions_[i]) return &tensors_[i].name;
  }
  return nullptr;
}

void ParameterSet::note_written() {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    versions_[i] = static_cast<std::uint32_t>(parameters_[i]._version());
}

at::Tensor ParameterSet::gradient_of(std::size_t i) const {
  require_same_size(i);
  const at::Tensor& gradient = parameters_[i].grad();
  if (gradient.defined() && gradient.layout() != at::kStrided) {
    throw InvalidConfig("the gradient of parameter " + tensors_[i].name +
                        " is sparse; methods take dense ones: make the embedding with sparse=False");
  }
  return gradient;
}

/// Undefined if there is none.
at::Tensor ParameterSet::on_place(const at::Tensor& scaling, const Place& place) const {
  if (!scaling.defined()) return scaling;
  const c10::Device device = place.device() == Device::cpu ? c10::Device(at::kCPU) : parameters_.front().device();
  return scaling.to(device, at::kFloat);
}

void ParameterSet::read_gradients(Place& place, float factor, const at::Tensor& scaling, View<float> flat) const {
  const c10::NoGradGuard no_graph;
  require_frozen();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const View<float> values = flat.sub(offsets_[i], tensors_[i].size);
    const at::Tensor gradient = gradient_of(i);
    if (gradient.defined()) {
      bring(place, gradient, values);
    } else {
      fill(place, 0.0F, values);
    }
  }
  if (factor != 1.0F) borrowed_floats(flat).mul_(factor);
  if (scaling.defined()) borrowed_floats(flat).mul_(on_place(scaling, place));
}

void ParameterSet::complete_gradients() {
  const c10::NoGradGuard no_graph;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!trains(i)) {
      parameters_[i].mutable_grad() = at::Tensor();
    } else if (!parameters_[i].grad().defined()) {
      parameters_[i].mutable_grad() = at::zeros_like(parameters_[i]);
    }
  }
}

void ParameterSet::scale_gradients(float factor) {
  const c10::NoGradGuard no_graph;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor gradient = gradient_of(i);
    if (gradient.defined()) gradient.mul_(factor);
  }
}

void ParameterSet::scale_gradients(const at::Tensor& scaling) {
  const c10::NoGradGuard no_graph;
  at::Tensor factor = scaling;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor gradient = gradient_of(i);
    if (!gradient.defined()) continue;
    factor = factor.to(gradient.device(), at::kFloat);  // a copy only where the device changes
    if (gradient.scalar_type() == at::kFloat) {
      gradient.mul_(factor);
    } else {
      gradient.copy_(gradient.to(at::kFloat).mul_(factor));  // mul_ would first round the factor to the gradient's type
    }
  }
}

std::vector<at::Tensor> ParameterSet::take_gradients() {
  std::vector<at::Tensor> taken;
  for (at::Tensor& parameter : parameters_) taken.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
  return taken;
}

void ParameterSet::give_gradients(const std::vector<at::Tensor>& gradients) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients[i];
}

std::span<const TensorPart> ParameterSet::open_gradients(Place& place, float factor, const at::Tensor& scaling,
                                                         bool takes_16bit) {
  const c10::NoGradGuard no_graph;
  require_frozen();
  parts_.clear();
  copied_.clear();
  const at::Tensor multiplier = on_place(scaling, place);
  const bool scales = factor != 1.0F || multiplier.defined();
  for (std::uint32_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor gradient = gradient_of(i);
    if (!gradient.defined()) {
      gradient = at::zeros_like(parameters_[i]);
      parameters_[i].mutable_grad() = gradient;
    }
    if (takes_16bit && !scales && has_16bit(gradient) && is_reached(place, gradient)) {
      parts_.push_back({i, gradient_view(gradient, "a gradient")});
      continue;
    }
    View<float> values;
    if (is_plain(place, gradient)) {
      values = float_view(gradient, "a gradient");
    } else {
      copies_.reserve(place, size());
      values = copies_.view().sub(offsets_[i], tensors_[i].size);
      bring(place, gradient, values);
      copied_.push_back(i);
    }
    if (factor != 1.0F) borrowed_floats(values).mul_(factor);
    if (multiplier.defined()) borrowed_floats(values).mul_(multiplier);
    parts_.push_back({i, values});
  }
  return parts_;
}

void ParameterSet::close_gradients() {
  const c10::NoGradGuard no_graph;
  for (const std::uint32_t i : copied_) {
    at::Tensor gradient = gradient_of(i);
    gradient.copy_(shaped(parts_[i].values.floats(), gradient));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!trains(i)) parameters_[i].mutable_grad() = at::Tensor();
  }
}

}  // namespace laconic::plugin
