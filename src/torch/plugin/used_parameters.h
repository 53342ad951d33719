#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace laconic::plugin {

/// Which parameters backward has reached. A gradient that is there says nothing: it may be left from an earlier step,
/// set to zero (`zero_grad(set_to_none=False)`). So autograd tells, before it adds to the gradient.
class UsedParameters {
 public:
  explicit UsedParameters(const std::vector<at::Tensor>& parameters);

  /// Whether backward reached it since this was last asked. As DistributedDataParallel counts it, several backwards
  /// without communication count together, and one that brought no gradient does not count. Any thread.
  bool take(std::uint32_t index);

 private:
  using Flags = std::vector<std::atomic<bool>>;
  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(at::Tensor()));

  std::vector<at::Tensor> parameters_;
  std::shared_ptr<Flags> reached_;
  std::vector<Accumulator> accumulators_;  ///< kept, as a tensor does not keep its own
};

}  // namespace laconic::plugin
