#pragma once

#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <memory>
#include <optional>

#include "torch/plugin/c10d/world.h"

namespace laconic::plugin {

/// One communicator's own group of c10d: the engine, where its tensors must lie, and the way to hear of failures. A
/// duplicate has a group of its own.
struct C10dChannel {
  /// InvalidConfig for a group without an engine, or without one for the world's staging device.
  C10dChannel(c10d::ProcessGroup& group, const C10dWorld& world);

  c10::intrusive_ptr<c10d::Backend> backend;
  at::Device device = at::kCPU;
  /// Whether bytes are copied to tensors on `device` and back. So they are for an engine that takes none of the host's;
  /// with the host itself as the device it is a rehearsal of that.
  bool staged = false;
  std::optional<c10::Stream> stream;  ///< of the copies, where the device has streams: nobody else's kernels hold it up
  int rank = 0;
  int size = 1;
  std::shared_ptr<FailureWatch> watch;
};

}  // namespace laconic::plugin
