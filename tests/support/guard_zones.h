#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace laconic::test {

/// Every byte of the zones in front of and behind values that a test watches.
inline constexpr int kGuardByte = 0xA5;

/// Whether everything but the `n` entries that begin at `offset` still has the guard byte.
template <class T>
bool guards_intact(const std::vector<T>& all, std::size_t offset, std::size_t n) {
  T guard;
  std::memset(static_cast<void*>(&guard), kGuardByte, sizeof(T));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i >= offset && i < offset + n) continue;
    if (std::memcmp(&all[i], &guard, sizeof(T)) != 0) return false;
  }
  return true;
}

}  // namespace laconic::test
