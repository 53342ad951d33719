#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "laconic/method.h"
#include "torch/models/models.h"

namespace laconic {

/// A network as methods see it: parameters and gradients are slices of two flat buffers of the caller, in registration
/// order, and backward() adds to the gradients where they lie. What it computes does not depend on where that is.
class FlatNetwork {
 public:
  using Ready = std::function<void(std::uint32_t tensor)>;

  /// The parameters move into memory of its own, until rebind names another. There is no gradient before
  /// rebind_gradient.
  explicit FlatNetwork(std::shared_ptr<nets::Network> network);
  /// Writes the parameters into `parameters` and binds both. Neither is owned.
  FlatNetwork(std::shared_ptr<nets::Network> network, View<float> parameters, View<float> gradient);
  ~FlatNetwork();
  FlatNetwork(const FlatNetwork&) = delete;
  FlatNetwork& operator=(const FlatNetwork&) = delete;

  nets::Network& network() const { return *network_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::size_t size() const { return size_; }

  View<const float> parameters() const;
  View<float> gradient() const;
  /// The slice of one tensor's gradient.
  View<float> gradient(std::uint32_t tensor) const { return gradient().sub(offsets_[tensor], tensors_[tensor].size); }

  /// The parameters are what lies there from now on; nothing is copied, nothing is ever written there. O(1). Not
  /// between a forward pass and its backward pass, which would then see two networks.
  void rebind(View<const float> parameters);
  void rebind_gradient(View<float> gradient);
  void zero_gradient();

  /// Batch norm's running statistics, one after the other; read and write them here. Empty where there are none.
  View<float> buffers() const;
  const std::vector<Tensor>& buffer_tensors() const { return buffer_tensors_; }

  /// Called in the thread of backward() when a tensor's gradient is complete, once a tensor and pass; an empty one
  /// stops that. An exception of it leaves backward().
  void on_gradient_ready(Ready ready);

 private:
  struct Hooks;

  std::shared_ptr<nets::Network> network_;
  std::vector<Tensor> tensors_;
  std::vector<std::size_t> offsets_;
  std::size_t size_ = 0;
  std::vector<Tensor> buffer_tensors_;
  torch::Tensor parameters_;  ///< all of them; each parameter is a slice that shares its storage
  torch::Tensor gradient_;
  torch::Tensor buffers_;
  std::unique_ptr<Hooks> hooks_;
};

}  // namespace laconic
