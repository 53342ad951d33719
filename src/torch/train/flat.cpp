#include "torch/train/flat.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <cstdint>
#include <utility>

#include "base/check.h"
#include "laconic/error.h"

namespace laconic {
namespace {

torch::TensorOptions on(Device device) { return torch::device(device == Device::cuda ? at::kCUDA : at::kCPU); }

std::size_t entries_of(const torch::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }

torch::Tensor slice(const torch::Tensor& flat, std::size_t offset, const torch::Tensor& like) {
  return flat.narrow(0, static_cast<std::int64_t>(offset), like.numel()).view(like.sizes());
}

/// One flat tensor on the device with the values of all, of which they are slices from then on.
torch::Tensor gather(std::vector<torch::Tensor>& parts, std::size_t size, Device device) {
  torch::Tensor flat = torch::empty({static_cast<std::int64_t>(size)}, on(device));
  std::size_t offset = 0;
  for (torch::Tensor& part : parts) {
    torch::Tensor place = slice(flat, offset, part);
    place.copy_(part);
    part.set_data(place);
    offset += entries_of(part);
  }
  return flat;
}

/// Makes `memory` what the tensor and all that share its storage consist of.
void point_at(const torch::Tensor& tensor, void* memory) {
  tensor.storage().set_data_ptr_noswap(at::DataPtr(memory, tensor.device()));
}

torch::Tensor tensor_at(View<const float> view) {
  return torch::from_blob(const_cast<float*>(view.data()), {static_cast<std::int64_t>(view.size())}, on(view.device()));
}

/// Waits for what the tensor's values depend on.
std::vector<float> values_of(const torch::Tensor& tensor) {
  std::vector<float> values(entries_of(tensor));
  const torch::NoGradGuard no_gradients;
  tensor_at(values).copy_(tensor);
  return values;
}


/// Runs after the node that adds to a parameter's gradient, as c10d's reducer does it.
class AfterAccumulation : public torch::autograd::FunctionPostHook {
 public:
  AfterAccumulation(std::shared_ptr<FlatNetwork::Ready> ready, std::uint32_t tensor)
      : ready_(std::move(ready)), tensor_(tensor) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& /*inputs*/) override {
    if (*ready_) (*ready_)(tensor_);
    return outputs;
  }

 private:
  std::shared_ptr<FlatNetwork::Ready> ready_;
  std::uint32_t tensor_;
};

}  // namespace

/// Keeps the accumulating nodes alive, which torch makes anew where nobody holds them. The type of the pointer depends
/// on the version.
struct FlatNetwork::Hooks {
  using Node = decltype(torch::autograd::impl::grad_accumulator(std::declval<const torch::Tensor&>()));
  std::shared_ptr<Ready> ready = std::make_shared<Ready>();
  std::vector<Node> nodes{};
};

FlatNetwork::FlatNetwork(std::shared_ptr<nets::Network> network, Device device)
    : network_(std::move(network)), device_(device), hooks_(std::make_unique<Hooks>()) {
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> parameters;
  for (const auto& entry : network_->named_parameters()) {
    tensors_.push_back({entry.key(), entries_of(entry.value()), entry.value().dim() >= 2});
    offsets_.push_back(size_);
    size_ += entries_of(entry.value());
    parameters.push_back(entry.value());
  }
  std::vector<torch::Tensor> buffers;
  std::size_t buffer_size = 0;
  for (const auto& entry : network_->named_buffers()) {
    buffer_tensors_.push_back({entry.key(), entries_of(entry.value())});
    buffer_size += entries_of(entry.value());
    buffers.push_back(entry.value());
  }
  parameters_ = gather(parameters, size_, device);
  buffers_ = gather(buffers, buffer_size, device);
  for (std::uint32_t tensor = 0; tensor < parameters.size(); ++tensor) {
    hooks_->nodes.push_back(torch::autograd::impl::grad_accumulator(parameters[tensor]));
    hooks_->nodes.back()->add_post_hook(std::make_unique<AfterAccumulation>(hooks_->ready, tensor));
  }
}

FlatNetwork::FlatNetwork(std::shared_ptr<nets::Network> network, View<float> parameters, View<float> gradient)
    : FlatNetwork(std::move(network), parameters.device()) {
  require_size("parameters", parameters.size(), size_);
  tensor_at(parameters).copy_(parameters_);
  rebind(parameters);
  rebind_gradient(gradient);
}

FlatNetwork::~FlatNetwork() { *hooks_->ready = {}; }

View<const float> FlatNetwork::parameters() const { return {parameters_.const_data_ptr<float>(), size_, device_}; }

View<float> FlatNetwork::gradient() const {
  if (!gradient_.defined()) throw InvalidConfig("the network has no gradient yet: call rebind_gradient first");
  return {gradient_.data_ptr<float>(), size_, device_};
}

void FlatNetwork::rebind(View<const float> parameters) {
  require_size("parameters", parameters.size(), size_);
  require_same_device("parameters", parameters.device(), device_);
  point_at(parameters_, const_cast<float*>(parameters.data()));
}

void FlatNetwork::rebind_gradient(View<float> gradient) {
  require_size("gradient", gradient.size(), size_);
  require_same_device("gradient", gradient.device(), device_);
  if (gradient_.defined()) {
    point_at(gradient_, gradient.data());
    return;
  }
  gradient_ = tensor_at(gradient);
  std::uint32_t tensor = 0;
  for (torch::Tensor& parameter : network_->parameters()) {
    parameter.mutable_grad() = slice(gradient_, offsets_[tensor++], parameter);
  }
}

void FlatNetwork::zero_gradient() {
  static_cast<void>(gradient());  // throws where there is none
  gradient_.zero_();
}

std::vector<float> FlatNetwork::read_parameters() const { return values_of(parameters_); }

View<float> FlatNetwork::buffers() const { return {buffers_.data_ptr<float>(), entries_of(buffers_), device_}; }

std::vector<float> FlatNetwork::read_buffers() const { return values_of(buffers_); }

void FlatNetwork::write_buffers(View<const float> values) {
  require_size("running statistics", values.size(), entries_of(buffers_));
  const torch::NoGradGuard no_gradients;
  buffers_.copy_(tensor_at(values));
}

void FlatNetwork::on_gradient_ready(Ready ready) { *hooks_->ready = std::move(ready); }

}  // namespace laconic
