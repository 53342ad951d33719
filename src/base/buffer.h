#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "laconic/view.h"

namespace laconic {

/// Memory that is kept between steps: uninitialised, aligned to 64 bytes, only ever grows. Growing forgets the
/// contents.
template <class T>
class Buffer {
 public:
  static constexpr std::size_t kAlignment = 64;

  Buffer() = default;
  explicit Buffer(std::size_t capacity) { reserve(capacity); }

  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    memory_.reset();
    memory_.reset(static_cast<T*>(::operator new (capacity * sizeof(T), std::align_val_t{kAlignment})));
    capacity_ = capacity;
  }

  std::size_t capacity() const { return capacity_; }
  View<T> view(std::size_t count) const { return {memory_.get(), count}; }
  View<T> view() const { return view(capacity_); }

 private:
  struct Free {
    void operator()(T* memory) const { ::operator delete (memory, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<T, Free> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace laconic
