#pragma once

// What the emulation's own files share about memory and errors.

#include "cuda_runtime.h"

namespace laconic::emulation {

inline constexpr int kPoison = 0xDB;  ///< every byte of memory that nobody has written yet

/// Opens device memory to this process for its lifetime; several threads may have one at a time.
class OpenMemory {
 public:
  OpenMemory();
  ~OpenMemory();
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;
};

bool is_device_memory(const void* memory);
bool is_pinned_memory(const void* memory);

/// Returns the error, and keeps it for cudaGetLastError.
cudaError_t noted(cudaError_t error);

/// Until all streams have done what they were given.
void finish_streams();

}  // namespace laconic::emulation
