#include "base/workspace.h"

#include <algorithm>
#include <exception>

#include "base/device_queue.h"
#include "base/memory.h"

namespace laconic {
namespace {

constexpr std::size_t kSmallestBlock = std::size_t{1} << 16;

std::size_t round_up(std::size_t bytes) {
  return (bytes + Workspace::kAlignment - 1) / Workspace::kAlignment * Workspace::kAlignment;
}

}  // namespace

void Workspace::Free::operator()(std::byte* memory) const {
  if (queue != nullptr) {
    queue->release(memory);
  } else {
    free_memory(memory, bytes);
  }
}

Workspace::Block Workspace::allocate(std::size_t bytes) const {
  void* memory = queue_ != nullptr ? queue_->allocate(bytes) : allocate_memory(bytes, "scratch memory of the kernels");
  return {std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(memory), Free{queue_, bytes}), bytes};
}

void* Workspace::take_bytes(std::size_t bytes) {
  bytes = round_up(std::max<std::size_t>(bytes, 1));
  std::size_t outgrown = 0;  // the largest block that is free and too small
  while (block_ < blocks_.size()) {
    if (blocks_[block_].bytes - used_ >= bytes) {
      std::byte* memory = blocks_[block_].memory.get() + used_;
      used_ += bytes;
      return memory;
    }
    if (used_ == 0) outgrown = std::max(outgrown, blocks_[block_].bytes);
    ++block_;
    used_ = 0;
  }
  // On a device an outgrown block stays, so the next one is larger by a quarter at least: what is taken may grow a
  // little in many steps, and then all blocks together stay within about ten times what is taken at a time.
  blocks_.push_back(allocate(std::max({bytes, round_up(outgrown + outgrown / 4), kSmallestBlock})));
  used_ = bytes;
  return blocks_.back().memory.get();
}

void Workspace::restore(std::size_t block, std::size_t used) noexcept {
  block_ = block;
  used_ = used;
  if (--depth_ > 0 || blocks_.size() < 2) return;
  if (device_ != Device::cpu) return;  // to free memory of a device would wait for all of its work
  // The outermost scope ended and one block did not suffice: from now on one does.
  std::size_t total = 0;
  for (const auto& each : blocks_) total += each.bytes;
  try {
    Block merged = allocate(total);
    blocks_.clear();
    blocks_.push_back(std::move(merged));
    block_ = 0;
    used_ = 0;
  } catch (const std::exception&) {
    // The blocks that are there still serve.
  }
}

}  // namespace laconic
