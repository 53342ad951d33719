#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace laconic {

/// What already lies in its place stays there; zero bytes may come from nowhere.
inline void copy_bytes(std::byte* target, const std::byte* source, std::uint64_t bytes) {
  if (bytes != 0 && target != source) std::memcpy(target, source, bytes);
}

}  // namespace laconic
