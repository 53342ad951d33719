#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace laconic {

/// Copies bytes, unless they already lie at `target`. If `bytes` is 0, `source` may be null.
inline void copy_bytes(std::byte* target, const std::byte* source, std::uint64_t bytes) {
  if (bytes != 0 && target != source) std::memcpy(target, source, bytes);
}

}  // namespace laconic
