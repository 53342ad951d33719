#include "torch/plugin/c10d/channel.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "laconic/error.h"

namespace laconic::plugin {
namespace {

/// The group's engine for such tensors; null: it has none.
c10::intrusive_ptr<c10d::Backend> engine_for(c10d::ProcessGroup& group, at::DeviceType type) {
  try {
    return group.getBackend(type);
  } catch (const c10::Error&) {
    return {};  // not every version of torch can be asked first
  }
}

}  // namespace

C10dChannel::C10dChannel(c10d::ProcessGroup& group, const C10dWorld& world)
    : rank(group.getRank()), size(group.getSize()), watch(world.watch) {
  const StagingDevice& wanted = world.staging;
  for (const auto type : {at::kCPU, at::kCUDA}) {
    if (wanted && wanted->type() != type) continue;
    backend = engine_for(group, type);
    if (backend == nullptr) continue;
    staged = wanted || type != at::kCPU;
    if (type == at::kCPU) return;
    const c10::impl::VirtualGuardImpl guard(type);
    device = wanted && wanted->has_index() ? *wanted : guard.getDevice();
    stream = guard.getStreamFromGlobalPool(device);
    return;
  }
  if (wanted)
    throw InvalidConfig("the process group has no engine for tensors on " + wanted->str() +
                        ": make it with a backend that has one, such as nccl for CUDA");
  throw InvalidConfig(
      "the process group has an engine neither for the CPU nor for CUDA: make it with backend gloo, "
      "nccl, mpi or ucc");
}

}  // namespace laconic::plugin
