#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "laconic/view.h"

namespace laconic {

class DeviceQueue;

/// Scratch memory in stack order. It grows during the first step and is then reused. It grows again only if a later
/// step takes more than those before it.
class Workspace {
 public:
  static constexpr std::size_t kAlignment = 64;

  /// Allocates from the queue, which must outlive it, or from CPU memory if the queue is null.
  explicit Workspace(Device device = Device::cpu, DeviceQueue* queue = nullptr) : device_(device), queue_(queue) {}

  /// `count` uninitialised entries, aligned to 64 bytes. They are valid until the Scope around them ends.
  template <class T>
  View<T> take(std::size_t count) {
    return {static_cast<T*>(take_bytes(count * sizeof(T))), count, device_};
  }

  /// When it ends, it releases everything that was taken since it began.
  class Scope {
   public:
    explicit Scope(Workspace& workspace) : workspace_(workspace), block_(workspace.block_), used_(workspace.used_) {
      ++workspace_.depth_;
    }
    ~Scope() { workspace_.restore(block_, used_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Workspace& workspace_;
    std::size_t block_;
    std::size_t used_;
  };

 private:
  struct Free {
    DeviceQueue* queue = nullptr;
    std::size_t bytes = 0;
    void operator()(std::byte* memory) const;
  };
  struct Block {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t bytes = 0;
  };

  Block allocate(std::size_t bytes) const;
  void* take_bytes(std::size_t bytes);
  void restore(std::size_t block, std::size_t used) noexcept;

  Device device_;
  DeviceQueue* queue_;
  std::vector<Block> blocks_;
  std::size_t block_ = 0;  ///< the block that is being filled
  std::size_t used_ = 0;   ///< bytes of that block in use
  std::size_t depth_ = 0;
};

}  // namespace laconic
