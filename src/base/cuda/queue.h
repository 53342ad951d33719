#pragma once

#include <cuda_runtime.h>

#include "base/device_queue.h"
#include "laconic/cuda.h"

namespace laconic::cuda {

/// The kernels use reductions over a warp that older devices do not have.
inline constexpr int kLeastCapability = 8;

/// Throws a CudaError that names the call unless `result` is success.
void check(cudaError_t result, const char* call);

/// Whether the current device can begin a kernel while the one before it ends, and the kernels are compiled for that:
/// from compute capability 9.0 on.
bool kernels_overlap();

/// Makes a device the current one for the lifetime of this object.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// A stream on a device. The queue either owns the stream or uses the caller's.
class Queue final : public DeviceQueue {
 public:
  explicit Queue(const CudaOptions& options);
  ~Queue() override;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  int device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  /// Whether a kernel may be launched while the one before it ends.
  bool overlaps() const { return overlaps_; }

  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;
  void read(void* to, const void* from, std::size_t bytes) override;
  void write(void* to, const void* from, std::size_t bytes) override;
  std::shared_ptr<std::byte> share_memory(std::size_t bytes) override;
  std::shared_ptr<std::byte> share_pinned_memory(std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void clear(void* memory, std::size_t bytes) override;
  void wait() override;

 private:
  int device_;
  bool own_;
  bool overlaps_ = false;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<std::byte> note_;  ///< pinned, for the few bytes that the CPU waits for
};

/// The queue of a place on CUDA.
Queue& queue_of(Place& place);

}  // namespace laconic::cuda
