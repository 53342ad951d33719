#include "base/message_memory.h"

#include <functional>
#include <map>
#include <mutex>

#include "base/memory.h"

namespace laconic {
namespace {

struct Block {
  std::size_t bytes = 0;
  std::weak_ptr<std::byte> owner;
};

/// All message memory of the process, by its beginning. Never destroyed: an engine may give its share back at the very
/// end.
struct Registry {
  std::mutex mutex;
  std::map<const std::byte*, Block, std::less<>> blocks;
};

Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

void give_back(std::byte* memory, std::size_t bytes) noexcept {
  {
    const std::lock_guard lock(registry().mutex);
    registry().blocks.erase(memory);
  }
  free_memory(memory, bytes);
}

}  // namespace

void MessageMemory::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return;
  memory_.reset();
  capacity_ = 0;
  auto* memory = static_cast<std::byte*>(allocate_memory(bytes, "messages between ranks"));
  memory_ = {memory, [bytes](std::byte* given) { give_back(given, bytes); }};
  capacity_ = bytes;
  const std::lock_guard lock(registry().mutex);
  registry().blocks[memory_.get()] = {bytes, memory_};
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
