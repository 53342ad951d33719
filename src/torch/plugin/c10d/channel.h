#pragma once

#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <memory>
#include <optional>

#include "laconic/view.h"
#include "torch/plugin/c10d/world.h"

namespace laconic::plugin {

/// One communicator's own c10d group: the engine, the device of its tensors, and the watch for failures. Each duplicate
/// has its own group.
struct C10dChannel {
  /// Throws InvalidConfig for a group without an engine, or without an engine for the world's staging device.
  C10dChannel(c10d::ProcessGroup& group, const C10dWorld& world);

  c10::intrusive_ptr<c10d::Backend> backend;
  at::Device device = at::kCPU;
  /// Whether bytes in CPU memory are copied to tensors on `device` and back. That is necessary for an engine that
  /// cannot use CPU tensors. If `device` is the CPU, it is a test of that path.
  bool staged = false;
  std::optional<c10::Stream> stream;  ///< own stream for copies, so that other kernels cannot delay them

  /// Whether the engine takes tensors over views on a device.
  bool takes(Device memory) const { return memory == Device::cpu || device.is_cuda(); }
  int rank = 0;
  int size = 1;
  std::shared_ptr<FailureWatch> watch;
};

}  // namespace laconic::plugin
