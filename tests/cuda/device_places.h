#pragma once

#include <memory>

#include "laconic/cuda.h"

namespace laconic::test {

/// All ranks on one device.
inline std::unique_ptr<Place> on_device(int /*rank*/) { return cuda_place(); }

inline std::unique_ptr<Place> on_device_but_rank_0(int rank) {
  if (rank == 0) return std::make_unique<Place>(CpuOptions{.threads = 1});
  return cuda_place();
}

}  // namespace laconic::test
