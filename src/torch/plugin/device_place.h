#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "laconic/place.h"

namespace laconic::plugin {

/// Where the methods of some tensors work.
struct Workplace {
  std::unique_ptr<Place> place;
  std::optional<c10::Stream> stream;  ///< of a place on a device, as torch knows it
  std::string reason;                 ///< why tensors on a device are worked on in CPU memory; empty if they are not
};

/// On the device where all of the tensors lie, on a stream of its own, if this build can; otherwise on the CPU.
Workplace workplace_for(std::span<const at::Tensor> tensors, int threads);

}  // namespace laconic::plugin
