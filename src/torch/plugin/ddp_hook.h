#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "torch/plugin/gradient_host.h"
#include "torch/plugin/used_parameters.h"

namespace laconic::plugin {

/// A model as DistributedDataParallel sees it.
struct DdpModel {
  std::vector<std::string> names;      ///< of the parameters, in registration order
  std::vector<at::Tensor> parameters;  ///< those that the reducer reduces
  at::Tensor scale;                    ///< of a GradScaler, which changes it in place; undefined: no scaler
};

/// A bucket and its conversion for the methods.
class Staging;

/// Passes the buckets of a DistributedDataParallel as deliveries to a GradientHost's steps. A bucket is identified by
/// its parameters, so it does not matter how the reducer builds or rebuilds its buckets. Buckets in float32 and in 16
/// bits are worked on where they are. A copy in float32 is made of 16 bits if there is a scale, if the methods' options
/// need it (MethodSetOptions::takes_16bit), or if a parameter of the bucket was not used. Gradients on a CUDA device
/// are worked on there, on a stream of the hook's own, or in CPU memory if this build has no CUDA. With a scale,
/// gradients are unscaled before anything is stored; then a step that is not finite returns infinity on all ranks, and
/// the scaler skips it.
class DdpHost {
 public:
  /// Collective.
  DdpHost(std::shared_ptr<Communicator> communicator, int threads, DdpModel model, std::vector<MethodGroup> groups,
          const MethodSetOptions& options);
  ~DdpHost();

  /// Queues the bucket. The future, of the given type, completes with `result` once the bucket's buffer holds the
  /// aggregate.
  c10::intrusive_ptr<c10::ivalue::Future> submit(c10d::GradBucket& bucket, c10::IValue result,
                                                 const c10::TypePtr& type);

  /// Rebuilds the reducer's buckets so that tensors which a method processes together are contiguous and need no copy.
  /// If a method needs its whole group, the group is one bucket; otherwise it is split into buckets of `bytes`. Call it
  /// between steps, with the same arguments on all ranks.
  void arrange(c10d::Reducer& reducer, std::size_t bytes) const;

  GradientHost& gradients() { return *host_; }
  /// Why gradients on a device are worked on in CPU memory; empty if they are not.
  const std::string& reason_for_cpu() const { return reason_for_cpu_; }

 private:
  std::shared_ptr<Staging> staging_;      ///< outlives the deliveries, which the host closes
  std::unique_ptr<UsedParameters> used_;  ///< set if DistributedDataParallel drops parameters that no rank used
  std::string reason_for_cpu_;
  std::unique_ptr<GradientHost> host_;
};

/// A hook that the reducer calls without Python.
class DdpHook final : public c10d::CommHookInterface {
 public:
  explicit DdpHook(std::shared_ptr<DdpHost> host) : host_(std::move(host)) {}
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;
  at::Tensor parseHookResult(const c10::IValue& result) override;

 private:
  std::shared_ptr<DdpHost> host_;
};

}  // namespace laconic::plugin
