#pragma once

#include <cstddef>

namespace laconic {

/// What a place needs if its memory is not ordinary CPU memory: it allocates there and orders the work on it. A CUDA
/// twin uses the device's own class (base/cuda/queue.h) for everything else.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  /// Allocates uninitialised memory, aligned to at least 64 bytes. Throws Error if there is not enough.
  virtual void* allocate(std::size_t bytes) = 0;

  /// Waits until the work submitted so far no longer needs the memory, then frees it.
  virtual void release(void* memory) noexcept = 0;

  /// Waits for the work submitted so far, then copies to CPU memory.
  virtual void read(void* to, const void* from, std::size_t bytes) = 0;

  /// Copies from CPU memory, after the work submitted so far. The caller may change `from` once the call has returned.
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;

  /// Called around loops in which the processor works on this memory (base/touch.h). Calls may be nested. They do
  /// nothing unless the memory is closed to the processor outside such loops.
  virtual void open_memory() {}
  virtual void close_memory() noexcept {}
};

}  // namespace laconic
