#pragma once

#include <cstddef>
#include <cstdint>

namespace laconic::topk {

struct Kth {
  std::uint32_t key = 0;
  std::size_t greater = 0;  ///< how many keys are above it
};

/// The key at position `rank` (1 <= rank <= n) when keys are sorted from the largest down. The top bit of a key is
/// ignored. Exact radix selection, O(n) for any data; `scratch` holds n entries.
Kth kth_largest(const std::uint32_t* keys, std::size_t n, std::size_t rank, std::uint32_t* scratch);

}  // namespace laconic::topk
