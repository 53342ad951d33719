#include "base/cuda/queue.h"

namespace laconic::cuda {
namespace {

/// Compiled for the same architectures as every other kernel.
__global__ void any_kernel() {}

}  // namespace

bool kernels_overlap() {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, any_kernel) == cudaSuccess) return attributes.ptxVersion >= 90;
  static_cast<void>(cudaGetLastError());  // the device is too old for any kernel, which cuda_obstacle explains
  return false;
}

}  // namespace laconic::cuda
