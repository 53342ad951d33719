#pragma once

// How a kernel's front door reaches its CUDA twin, in one line after its checks:
//   if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(fill, place, value, values);

#include "base/check.h"

/// Calls cuda::name, which launches its work on the place's stream and returns. A build without CUDA has no twins.
#if LACONIC_CUDA
#define LACONIC_CUDA_CALL(name, ...) ::laconic::cuda::name(__VA_ARGS__)
#else
#define LACONIC_CUDA_CALL(name, ...) ::laconic::no_cuda_version(#name)
#endif
