#pragma once

#include <cstddef>

namespace laconic {

/// What a place needs where its memory is not the host's own: memory there, and the order of the work on it. A twin
/// reaches what else its device has through the device's own class (base/cuda/queue.h).
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  /// Uninitialised, aligned to 64 bytes at least. An Error if there is no room.
  virtual void* allocate(std::size_t bytes) = 0;

  /// Waits until the work given so far no longer needs it.
  virtual void release(void* memory) noexcept = 0;

  /// Copies to the host what is there once the work given so far is done; waits for that.
  virtual void read(void* to, const void* from, std::size_t bytes) = 0;

  /// Copies from the host, after the work given so far. The host may change `from` once it has returned.
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;

  /// Called around loops in which the processor works on this memory (base/touch.h); may be nested. Does nothing unless
  /// the memory is closed to the processor in between.
  virtual void open_memory() {}
  virtual void close_memory() noexcept {}
};

}  // namespace laconic
