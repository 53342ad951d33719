#pragma once

#include <cstddef>
#include <memory>

#include "base/device_queue.h"
#include "base/memory.h"
#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// Memory that is kept between steps. It is uninitialised, aligned to 64 bytes, and never shrinks. Growing discards the
/// contents. It lies in CPU memory or on the device of a place; that place must outlive it.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t capacity) { reserve(capacity); }

  /// In CPU memory.
  void reserve(std::size_t capacity) { grow(nullptr, Device::cpu, capacity); }
  /// On the device where the place works.
  void reserve(Place& place, std::size_t capacity) { grow(place.queue(), place.device(), capacity); }

  std::size_t capacity() const { return memory_ != nullptr ? memory_.get_deleter().bytes / sizeof(T) : 0; }
  View<T> view(std::size_t count) const { return {memory_.get(), count, device_}; }
  View<T> view() const { return view(capacity()); }

 private:
  struct Free {
    DeviceQueue* queue = nullptr;
    std::size_t bytes = 0;
    void operator()(T* memory) const {
      if (queue != nullptr) return queue->release(memory);
      free_memory(memory, bytes);
    }
  };

  void grow(DeviceQueue* queue, Device device, std::size_t capacity) {
    if (queue != memory_.get_deleter().queue) memory_.reset();  // it lies elsewhere
    device_ = device;
    if (capacity <= this->capacity()) return;
    memory_.reset();
    const std::size_t bytes = capacity * sizeof(T);
    void* memory = queue != nullptr ? queue->allocate(bytes) : allocate_memory(bytes, "what is kept between steps");
    memory_ = {static_cast<T*>(memory), Free{queue, bytes}};
  }

  std::unique_ptr<T, Free> memory_;
  Device device_ = Device::cpu;
};

}  // namespace laconic
