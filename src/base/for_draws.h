#pragma once

#include <cstddef>
#include <cstdint>

#include "base/philox.h"

namespace laconic {

/// write(i, draw32(stream, i)) for all i below n, each block of the stream computed once.
template <class Write>
void for_draws(const RandomStream& stream, std::size_t n, Write&& write) {
  for (std::size_t start = 0; start < n; start += 64) {
    for (std::size_t lane = 0; lane < 16 && start + lane < n; ++lane) {
      const PhiloxBlock block = stream.block(start / 4 + lane);
      for (std::size_t word = 0; word < 4; ++word) {
        const std::size_t i = start + word * 16 + lane;
        if (i < n) write(i, block[word]);
      }
    }
  }
}

}  // namespace laconic
