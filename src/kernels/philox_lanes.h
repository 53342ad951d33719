#pragma once

// Sixteen neighbouring blocks of Philox4x32-7 at once, for loops that the compiler vectorises: the blocks of base/philox.h.

#include <array>
#include <cstdint>

#include "base/philox.h"
#include "kernels/clones.h"

namespace laconic::portable {

inline constexpr std::size_t kPhiloxLanes = 16;

/// words[w][lane] is word w of block `first` + lane. `first` is a multiple of 16, so that the low 32 bits never
/// overflow.
using PhiloxLanes = std::array<std::array<std::uint32_t, kPhiloxLanes>, 4>;

LACONIC_INLINE void draw_lanes(const RandomStream& stream, std::uint64_t first, PhiloxLanes& words) {
  const PhiloxBlock counter = stream.counter(first);
  const std::uint32_t seed0 = stream.key0();
  const std::uint32_t seed1 = stream.key1();
  for (std::uint32_t lane = 0; lane < kPhiloxLanes; ++lane) {
    std::uint32_t word0 = counter[0] + lane;
    std::uint32_t word1 = counter[1];
    std::uint32_t word2 = counter[2];
    std::uint32_t word3 = counter[3];
#pragma GCC unroll 7
    for (std::uint32_t round = 0; round < kPhiloxRounds; ++round) {
      const std::uint64_t product0 = std::uint64_t{kPhiloxMultiplier0} * word0;
      const std::uint64_t product1 = std::uint64_t{kPhiloxMultiplier1} * word2;
      word0 = static_cast<std::uint32_t>(product1 >> 32) ^ word1 ^ (seed0 + round * kPhiloxWeyl0);
      word1 = static_cast<std::uint32_t>(product1);
      word2 = static_cast<std::uint32_t>(product0 >> 32) ^ word3 ^ (seed1 + round * kPhiloxWeyl1);
      word3 = static_cast<std::uint32_t>(product0);
    }
    words[0][lane] = word0;
    words[1][lane] = word1;
    words[2][lane] = word2;
    words[3][lane] = word3;
  }
}

}  // namespace laconic::portable
