#pragma once

#include <cstddef>
#include <memory>

#include "base/memory.h"
#include "laconic/view.h"

namespace laconic {

/// Memory that is kept between steps: uninitialised, aligned to 64 bytes, only ever grows. Growing forgets the
/// contents.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t capacity) { reserve(capacity); }

  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    memory_.reset();
    capacity_ = 0;
    const std::size_t bytes = capacity * sizeof(T);
    memory_ = {static_cast<T*>(allocate_memory(bytes, "what is kept between steps")), Free{bytes}};
    capacity_ = capacity;
  }

  std::size_t capacity() const { return capacity_; }
  View<T> view(std::size_t count) const { return {memory_.get(), count}; }
  View<T> view() const { return view(capacity_); }

 private:
  struct Free {
    std::size_t bytes = 0;
    void operator()(T* memory) const { free_memory(memory, bytes); }
  };
  std::unique_ptr<T, Free> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace laconic
