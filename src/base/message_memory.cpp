#include "base/message_memory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

#include "base/device_queue.h"
#include "base/memory.h"
#include "laconic/place.h"

namespace laconic {
namespace {

struct Block {
  std::size_t bytes = 0;
  std::weak_ptr<std::byte> owner;
};

/// All message memory of the process, by its beginning. Never destroyed: an engine may release its memory at the very
/// end.
struct Registry {
  std::mutex mutex;
  std::map<const std::byte*, Block, std::less<>> blocks;
};

Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

/// In the list of all message memory for as long as it has an owner.
std::shared_ptr<std::byte> listed(std::shared_ptr<std::byte> memory, std::size_t bytes) {
  std::byte* const begin = memory.get();
  const std::shared_ptr<std::byte> shared(begin, [memory = std::move(memory)](std::byte* given) {
    const std::lock_guard lock(registry().mutex);
    registry().blocks.erase(given);
  });
  const std::lock_guard lock(registry().mutex);
  registry().blocks[begin] = {bytes, shared};
  return shared;
}

std::shared_ptr<std::byte> cpu_memory(std::size_t bytes) {
  return {static_cast<std::byte*>(allocate_memory(bytes, "messages between ranks")),
          [bytes](std::byte* memory) { free_memory(memory, bytes); }};
}

constexpr std::size_t kLeastPinned = 4096;

/// Of a message whose length differs between steps.
std::size_t room_for(std::size_t bytes, std::size_t capacity) { return std::max(bytes + bytes / 4, 2 * capacity); }

}  // namespace

template <class Allocate>
void MessageMemory::grow(Device device, std::size_t bytes, Allocate&& allocate) {
  if (bytes <= capacity_ && device == device_) return;
  device_ = device;
  memory_.reset();
  capacity_ = 0;
  memory_ = listed(allocate(), bytes);
  capacity_ = bytes;
}

/// Work that was submitted may still copy from the memory that growing frees.
void MessageMemory::wait_before_growing(Place& place, std::size_t bytes) const {
  if (capacity_ > 0 && bytes > capacity_) place.queue()->wait();
}

void MessageMemory::reserve(std::size_t bytes) {
  grow(Device::cpu, bytes, [&] { return cpu_memory(bytes); });
}

void MessageMemory::reserve(Place& place, std::size_t bytes) {
  if (place.device() == Device::cpu) return reserve(bytes);
  wait_before_growing(place, bytes);
  grow(place.device(), bytes, [&] { return place.queue()->share_memory(bytes); });
}

void MessageMemory::reserve_varying(Place& place, std::size_t bytes) {
  if (bytes <= capacity_ && device_ == place.device()) return;
  const std::size_t room = room_for(bytes, capacity_);
  if (place.device() == Device::cpu) return reserve(room);
  if (memory_ != nullptr) outgrown_.push_back(std::move(memory_));
  grow(place.device(), room, [&] { return place.queue()->share_memory(room); });
}

void MessageMemory::reserve_pinned(Place& place, std::size_t bytes) {
  if (place.queue() == nullptr) return reserve(bytes);
  if (bytes <= capacity_) return;
  wait_before_growing(place, bytes);
  const std::size_t room = std::max(room_for(bytes, capacity_), kLeastPinned);
  grow(Device::cpu, room, [&] { return place.queue()->share_pinned_memory(room); });
}

std::size_t message_memory_bytes() {
  const std::lock_guard lock(registry().mutex);
  std::size_t bytes = 0;
  for (const auto& [memory, block] : registry().blocks) bytes += block.bytes;
  return bytes;
}

std::shared_ptr<std::byte> message_owner(const std::byte* begin, std::size_t bytes) {
  const std::lock_guard lock(registry().mutex);
  auto after = registry().blocks.upper_bound(begin);
  if (after == registry().blocks.begin()) return {};
  const auto& [memory, block] = *--after;
  const auto offset = static_cast<std::size_t>(begin - memory);
  if (offset > block.bytes || bytes > block.bytes - offset) return {};
  return block.owner.lock();
}

}  // namespace laconic
