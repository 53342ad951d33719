#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#ifdef __CUDACC__
namespace laconic::cuda {

/// The first position from `low` on and below `high` whose index is at least that, or `high`. The indices ascend.
template <class Position>
__device__ Position first_from(const std::uint32_t* indices, Position low, Position high, std::uint64_t index) {
  while (low < high) {
    const Position middle = low + (high - low) / 2;
    if (indices[middle] < index) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace laconic::cuda
#endif
