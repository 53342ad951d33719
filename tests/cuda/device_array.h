#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "base/cuda/queue.h"
#include "laconic/view.h"
#include "support/guard_zones.h"

namespace laconic::test {

/// Device memory between guard zones, as Guarded is on the CPU. `shift` entries move its start off the alignment.
/// Copies wait for all work on the device.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t n, std::size_t shift = 0) : offset_(kGuard + shift % kGuard), n_(n) {
    cuda::check(cudaMalloc(&memory_, bytes()), "cudaMalloc");
    cuda::check(cudaMemset(memory_, kGuardByte, bytes()), "cudaMemset");
    cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  explicit DeviceArray(const std::vector<T>& values, std::size_t shift = 0) : DeviceArray(values.size(), shift) {
    cuda::check(cudaMemcpy(memory_ + offset_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
    // A copy from pageable memory may return before the bytes have arrived, and a place's stream does not wait for it.
    cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  ~DeviceArray() { static_cast<void>(cudaFree(memory_)); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  View<T> view() const { return {memory_ + offset_, n_, Device::cuda}; }

  std::vector<T> values() const {
    const auto all = everything();
    return {all.begin() + static_cast<std::ptrdiff_t>(offset_),
            all.begin() + static_cast<std::ptrdiff_t>(offset_ + n_)};
  }

  /// Whether the guard zones are as they were.
  bool intact() const {
    return guards_intact(everything(), offset_, n_);
  }

 private:
  static constexpr std::size_t kGuard = 64;

  std::size_t bytes() const { return (n_ + 3 * kGuard) * sizeof(T); }
  std::vector<T> everything() const {
    std::vector<T> all(n_ + 3 * kGuard);
    cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    cuda::check(cudaMemcpy(all.data(), memory_, bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return all;
  }

  T* memory_ = nullptr;
  std::size_t offset_;
  std::size_t n_;
};

}  // namespace laconic::test
