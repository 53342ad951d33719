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

/// A model as DistributedDataParallel has it.
struct DdpModel {
  std::vector<std::string> names;      ///< of the parameters, in registration order
  std::vector<at::Tensor> parameters;  ///< that the reducer reduces
  at::Tensor scale;                    ///< a GradScaler's, which it changes in place; undefined: there is none
};

/// Where a bucket is and what is made of it for the methods.
class Staging;

/// The buckets of a DistributedDataParallel as pieces of a GradientHost's steps. A bucket is found by its parameters,
/// so it does not matter how the reducer fills its buckets, or fills them anew. Gradients in 16 bits travel as float32
/// and come back in 16 bits; those on a device are worked on in host memory. With a scale they are unscaled before
/// anything is remembered; a step that is not finite then comes back as infinity on all ranks, which the scaler skips.
class DdpHost {
 public:
  /// Collective.
  DdpHost(std::shared_ptr<Communicator> communicator, int threads, DdpModel model, std::vector<MethodGroup> groups,
          const MethodSetOptions& options);
  ~DdpHost();

  /// Queues the bucket. The future, of the given type, ends as `result` once the bucket's buffer holds the aggregate.
  c10::intrusive_ptr<c10::ivalue::Future> submit(c10d::GradBucket& bucket, c10::IValue result,
                                                 const c10::TypePtr& type);

  /// Fills the reducer's buckets anew, so that tensors which a method works on together lie one after another and need
  /// not be copied: a group in one bucket if its method needs it whole, else in stretches of `bytes`. Between steps;
  /// the same on all ranks.
  void arrange(c10d::Reducer& reducer, std::size_t bytes) const;

  GradientHost& gradients() { return *host_; }

 private:
  std::shared_ptr<Staging> staging_;      ///< outlives the pieces, which the host ends
  std::unique_ptr<UsedParameters> used_;  ///< where DistributedDataParallel drops what no rank used
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
