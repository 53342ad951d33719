#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <cstdint>
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

/// The stream of a place on a device.
enum class WorkStream : std::uint8_t {
  own,            ///< for a host with its own thread: beside the training loop's kernels, and before them
  torch_default,  ///< for a host that works in the caller's thread, whose kernels are usually there too
};

/// On the device where all of the tensors lie, if this build can; otherwise on the CPU.
Workplace workplace_for(std::span<const at::Tensor> tensors, int threads, WorkStream stream);

/// For the time of a call, makes the stream of a workplace torch's current one. What the caller's stream was given
/// before is done first, and what it is given later waits for what the call submitted. Does nothing without a stream,
/// or where the caller's is the same.
class CallOrder {
 public:
  explicit CallOrder(const std::optional<c10::Stream>& stream);
  ~CallOrder();
  CallOrder(const CallOrder&) = delete;
  CallOrder& operator=(const CallOrder&) = delete;

 private:
  std::optional<c10::Stream> stream_;
  std::optional<c10::Stream> callers_;  ///< if it is another one
  c10::OptionalStreamGuard current_;
};

}  // namespace laconic::plugin
