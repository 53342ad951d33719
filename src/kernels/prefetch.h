#pragma once

#include <cstddef>
#include <cstdint>

namespace laconic {

/// Asks for the cache line that lies `bytes` behind `from`. It may lie beyond the view's end, where a prefetch does
/// nothing.
inline void prefetch_ahead(const float* from, std::size_t bytes) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) + bytes));
}

}  // namespace laconic
