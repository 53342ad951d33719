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
  while (block_ < blocks_.size() && blocks_[block_].bytes - used_ < bytes) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) blocks_.push_back(allocate(std::max(bytes, kSmallestBlock)));
  std::byte* memory = blocks_[block_].memory.get() + used_;
  used_ += bytes;
  taken_ += bytes;
  most_ = std::max(most_, taken_);
  return memory;
}

void Workspace::restore(const Scope& scope) noexcept {
  block_ = scope.block_;
  used_ = scope.used_;
  taken_ = scope.taken_;
  if (--depth_ == 0 && blocks_.size() > 1) make_one_block();
}

/// One block did not suffice: from now on one does, with an eighth more than ever was in use, because what kernels take
/// differs a little from step to step. To free memory of a device waits for its work.
void Workspace::make_one_block() noexcept {
  blocks_.clear();
  block_ = 0;
  used_ = 0;
  try {
    blocks_.push_back(allocate(std::max(most_ + most_ / 8, kSmallestBlock)));
  } catch (const std::exception&) {
    // The next take allocates, and reports it if it cannot.
  }
}

}  // namespace laconic
