#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torch/plugin/device_place.h"
#include "torch/plugin/gradient_host.h"

namespace laconic::plugin {

/// This rank's shards of a model's parameters.
struct ShardedModel {
  std::vector<std::string> names;    ///< in registration order
  std::vector<std::uint64_t> sizes;  ///< entries of this rank's shard; 0 for an empty one
  c10::Device device = c10::kCPU;    ///< where gradients arrive
};

/// Where a parameter's shard lies in a flat tensor of gradients.
struct FlatSlice {
  std::uint32_t parameter = 0;
  std::int64_t offset = 0;
};

/// What fully_shard does with a sum over replicas afterwards. The mean is multiplied by `factor`, rounded to the flat
/// tensor's type, divided by `divisor` and added to the gradient.
struct Scaling {
  double factor = 1.0;
  double divisor = 1.0;
};

/// Bytes that this rank sends inside its replica, to reduce gradients to shards.
struct InsideTraffic {
  std::uint64_t last = 0;
  std::uint64_t total = 0;
};

/// One backward pass on its way through the host's thread.
class ShardedStep;

/// Exchanges the gradients of a sharded model between its replicas, as deliveries to a GradientHost's steps. fully_shard
/// reduces the gradients of a group of parameters to a flat tensor, and goes on with it at once. So a call copies the
/// flat tensor, leaves zeros there, and the aggregate is added to the gradients at the end of backward. One backward is
/// one step. A parameter that it did not reach contributes zeros, and several calls for a parameter are summed first.
/// A parameter's exchange starts with its first call, unless an earlier step had several. A call that comes after that
/// is exchanged in a further step at the end of backward, on all replicas. At the end of each step replicas tell each
/// other which parameters had such a call: if they differ, `finish` throws OtherParameters on all of them, and the step
/// is dropped.
class FsdpHost {
 public:
  /// Collective. `communicator` connects the replicas: the ranks that hold the same shards. `shards` connects the ranks
  /// of this replica; null if it is one rank.
  FsdpHost(std::shared_ptr<Communicator> communicator, std::shared_ptr<Communicator> shards, int threads,
           ShardedModel model, std::vector<MethodGroup> groups, const MethodSetOptions& options);
  ~FsdpHost();

  /// Takes some gradients of this step and leaves zeros. Does not wait for other ranks.
  void submit(const at::Tensor& flat, const std::vector<FlatSlice>& slices, const Scaling& scaling);
  /// Ends a step: waits for the aggregate and adds it to the gradients, one for each parameter, undefined for one that
  /// this step did not reach. Throws what went wrong in the step.
  void finish(const std::vector<at::Tensor>& gradients);
  /// Drops a step that cannot be finished, on all ranks, and leaves the methods' memory as it was before the step.
  /// Collective: a rank that has not begun the step takes part in it too. After a step for which
  /// `finish` threw an error it does nothing: all ranks have dropped that step.
  void abandon();
  /// Whether gradients of a step have arrived that has not ended.
  bool in_step() const { return step_ != nullptr; }
  /// Parameters that this step has reached.
  std::vector<std::uint32_t> reached() const;

  GradientHost& gradients() { return *host_; }
  const InsideTraffic& inside() const { return inside_; }
  /// Why gradients on a device are worked on in CPU memory; empty if they are not.
  const std::string& reason_for_cpu() const { return reason_for_cpu_; }

 private:
  struct Parameter {
    at::Tensor values;      ///< its part of the buffer
    bool reached = false;   ///< in this step
    bool delivered = false;
    bool several = false;   ///< an earlier step had several calls for it
    Scaling scaling;
    at::ScalarType type = at::kFloat;  ///< of the flat tensor
  };

  void take(Parameter& parameter, const at::Tensor& slice);
  void take_late(std::uint32_t index, const at::Tensor& slice);
  void deliver(const std::vector<std::uint32_t>& parameters, bool last = false, bool abandons = false);
  bool would_end(const std::vector<std::uint32_t>& parameters) const;
  void deliver_rest(float missing, bool abandons = false);
  void run_late(const std::vector<at::Tensor>& gradients);
  void wait();
  void add_to(const std::vector<at::Tensor>& gradients);
  void reset();

  std::vector<std::uint64_t> sizes_;
  std::vector<Parameter> parameters_;
  at::Tensor buffer_;  ///< gradients of a step, then aggregates: one parameter after another, in float32
  at::Tensor late_;    ///< as the buffer: calls for parameters whose exchange had begun. Undefined: there were none
  std::vector<std::uint32_t> late_parameters_;
  std::optional<c10::Stream> stream_;
  std::string reason_for_cpu_;
  int shards_ = 1;

  std::shared_ptr<ShardedStep> step_;  ///< null between steps
  bool first_step_ = true;  ///< nothing is known yet of the calls
  bool dropped_ = false;    ///< the last step ended in finish with an error
  InsideTraffic inside_;
  std::unique_ptr<GradientHost> host_;
};

}  // namespace laconic::plugin
