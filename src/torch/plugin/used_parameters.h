#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace laconic::plugin {

/// Which parameters the backward pass has reached. An existing gradient is no evidence: it may be left from an earlier
/// step and set to zero (`zero_grad(set_to_none=False)`). So it uses a hook of autograd that runs before the gradient
/// is accumulated.
class UsedParameters {
 public:
  explicit UsedParameters(const std::vector<at::Tensor>& parameters);

  /// Whether the backward pass has reached the parameter since the last call. As in DistributedDataParallel, several
  /// backward passes without communication count together, and a pass without a gradient does not count. May be called
  /// from any thread.
  bool take(std::uint32_t index);

 private:
  using Flags = std::vector<std::atomic<bool>>;
  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(at::Tensor()));

  std::vector<at::Tensor> parameters_;
  std::shared_ptr<Flags> reached_;
  std::vector<Accumulator> accumulators_;  ///< kept alive here, because a tensor does not keep its own
};

}  // namespace laconic::plugin
