#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "laconic/method.h"
#include "torch/models/models.h"

namespace laconic {

/// A network as methods see it: parameters and gradients are slices of two flat buffers of the caller, in registration
/// order, and backward() adds to the gradients in place. The results do not depend on where the buffers lie on their
/// device. On a GPU, all work and all copies are given to torch's current stream.
class FlatNetwork {
 public:
  using Ready = std::function<void(std::uint32_t tensor)>;

  /// Copies parameters and running statistics to its own memory on the device. It uses these parameters until rebind.
  /// There is no gradient before rebind_gradient.
  explicit FlatNetwork(std::shared_ptr<nets::Network> network, Device device = Device::cpu);
  /// Writes the parameters into `parameters` and binds both, which lie on the same device. Neither is owned.
  FlatNetwork(std::shared_ptr<nets::Network> network, View<float> parameters, View<float> gradient);
  ~FlatNetwork();
  FlatNetwork(const FlatNetwork&) = delete;
  FlatNetwork& operator=(const FlatNetwork&) = delete;

  nets::Network& network() const { return *network_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::size_t size() const { return size_; }
  torch::Device device() const { return parameters_.device(); }

  View<const float> parameters() const;
  View<float> gradient() const;
  /// The slice of one tensor's gradient.
  View<float> gradient(std::uint32_t tensor) const { return gradient().sub(offsets_[tensor], tensors_[tensor].size); }

  /// From now on the parameters are the values in that memory. Nothing is copied, and nothing is ever written there.
  /// O(1). Do not call it between a forward pass and its backward pass, which would then see different parameters.
  void rebind(View<const float> parameters);
  void rebind_gradient(View<float> gradient);
  void zero_gradient();

  /// The parameters' values now, on the CPU.
  std::vector<float> read_parameters() const;

  /// Batch norm's running statistics, one after another, on the network's device. Empty if there are none.
  View<float> buffers() const;
  /// Copies them to the CPU, and from there.
  std::vector<float> read_buffers() const;
  void write_buffers(View<const float> values);
  const std::vector<Tensor>& buffer_tensors() const { return buffer_tensors_; }

  /// `ready` is called in the thread of backward() when a tensor's gradient is complete, once per tensor and pass. An
  /// empty function ends the calls. If it throws, backward() throws.
  void on_gradient_ready(Ready ready);

 private:
  struct Hooks;

  std::shared_ptr<nets::Network> network_;
  Device device_;
  std::vector<Tensor> tensors_;
  std::vector<std::size_t> offsets_;
  std::size_t size_ = 0;
  std::vector<Tensor> buffer_tensors_;
  torch::Tensor parameters_;  ///< all parameters; each one is a slice that shares its storage
  torch::Tensor gradient_;
  torch::Tensor buffers_;
  std::unique_ptr<Hooks> hooks_;
};

}  // namespace laconic
