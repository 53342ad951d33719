#pragma once

// Places on CUDA devices, without CUDA's own headers. In a build without CUDA there are zero devices.

#include <memory>
#include <optional>

#include "laconic/error.h"
#include "laconic/place.h"

struct CUstream_st;  // cudaStream_t is a pointer to this

namespace laconic {

/// A call to CUDA failed; the message names it. Kernels run later than they are launched, so the cause may be an
/// earlier one.
class CudaError : public Error {
 public:
  using Error::Error;
};

struct CudaOptions {
  int device = 0;  ///< as CUDA counts them
  /// The caller's stream on that device, which must outlive the place; nullptr is CUDA's default stream. Without one
  /// the place makes a stream of its own that does not wait for the default stream.
  std::optional<CUstream_st*> stream = std::nullopt;
};

/// How many devices this process can use.
int cuda_device_count();

/// A place that gives its kernels to a stream and returns at once. Views given to it carry Device::cuda and live in the
/// device's memory; `read_status` is what waits. InvalidConfig if there is no such device, or no CUDA in this build.
std::unique_ptr<Place> cuda_place(CudaOptions options = {});

/// The stream of a place that cuda_place made: for callers' own work before and after.
CUstream_st* cuda_stream(Place& place);

}  // namespace laconic
