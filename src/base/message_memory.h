#pragma once

#include <cstddef>
#include <memory>

#include "laconic/view.h"

namespace laconic {

/// Memory of messages, aligned to 64 bytes; only ever grows, which forgets the contents. An engine that cannot take a
/// collective back shares it (message_owner): when the caller has withdrawn and gone, the engine may still write there.
/// So what it holds counts only while its collectives go well.
class MessageMemory {
 public:
  void reserve(std::size_t bytes);
  View<std::byte> view(std::size_t bytes) const { return {memory_.get(), bytes}; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t capacity_ = 0;
};

/// Bytes of all message memory that this process holds.
std::size_t message_memory_bytes();

/// Keeps the message memory in which all of these bytes lie. Null: they lie elsewhere.
std::shared_ptr<std::byte> message_owner(const std::byte* begin, std::size_t bytes);

}  // namespace laconic
