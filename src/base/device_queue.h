#pragma once

#include <cstddef>
#include <memory>

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

  /// Memory for messages: on the device, or in CPU memory from which the device copies fast. An engine that cannot
  /// cancel a message may hold it longer than the queue lives.
  virtual std::shared_ptr<std::byte> share_memory(std::size_t bytes) = 0;
  virtual std::shared_ptr<std::byte> share_pinned_memory(std::size_t bytes) = 0;

  /// Waits for the work submitted so far, then copies to CPU memory.
  virtual void read(void* to, const void* from, std::size_t bytes) = 0;

  /// Copies from CPU memory, after the work submitted so far. The caller may change `from` once the call has returned.
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;

  /// Copies in either direction in the order of the work, without waiting. CPU memory must be pinned and must not change
  /// until `wait` has returned.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;

  /// Sets all bytes to zero in the order of the work.
  virtual void clear(void* memory, std::size_t bytes) = 0;

  /// Waits for the work submitted so far.
  virtual void wait() = 0;

  /// Called around loops in which the processor works on this memory (base/touch.h). Calls may be nested. They do
  /// nothing unless the memory is closed to the processor outside such loops.
  virtual void open_memory() {}
  virtual void close_memory() noexcept {}
};

}  // namespace laconic
