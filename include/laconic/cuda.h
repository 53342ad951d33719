#pragma once

// Places on CUDA devices, without CUDA's own headers. In a build without CUDA there are zero devices.

#include <memory>
#include <optional>
#include <string>

#include "laconic/error.h"
#include "laconic/place.h"

struct CUstream_st;  // cudaStream_t is a pointer to this

namespace laconic {

/// A call to CUDA failed; the message names the call. Kernels run later than they are launched, so the cause may be an
/// earlier call.
class CudaError : public Error {
 public:
  using Error::Error;
};

struct CudaOptions {
  int device = 0;  ///< CUDA's number of the device
  /// The caller's stream on that device, which must outlive the place; nullptr is CUDA's default stream. If it is not
  /// set, the place creates its own stream, which does not wait for the default stream.
  std::optional<CUstream_st*> stream = std::nullopt;
  /// Whether the place's own stream goes before other streams where both have work.
  bool high_priority = false;
};

/// The number of devices that this process can use.
int cuda_device_count();

/// Why the kernels of this build cannot run on the device, and the remedy; empty if they can.
std::string cuda_obstacle(int device);

/// What the driver calls the device, such as "NVIDIA H200". Throws InvalidConfig if it does not exist.
std::string cuda_device_name(int device = 0);

/// A place that launches its kernels on a stream and does not wait for them; `read_status` waits. Views passed to it
/// have Device::cuda and lie in the device's memory. Throws InvalidConfig if the device does not exist or this build
/// has no CUDA.
std::unique_ptr<Place> cuda_place(CudaOptions options = {});

/// The stream of a place that cuda_place made. Callers can launch their own work on it before and after.
CUstream_st* cuda_stream(Place& place);

}  // namespace laconic
