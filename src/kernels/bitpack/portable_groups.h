#pragma once

// Packs and unpacks one group of fields in loops that the compiler vectorises: one row of sixteen fields at a time.

#include <array>
#include <cstring>

#include "kernels/bitpack/bitpack.h"
#include "kernels/clones.h"

namespace laconic::portable {

using PackRow = std::array<std::uint32_t, kPackLanes>;

constexpr std::uint32_t field_mask(int bits) { return static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1); }

/// bits in 1..32.
LACONIC_INLINE void pack_group(const std::uint32_t* fields, int bits, std::byte* packed) {
  const std::uint32_t mask = field_mask(bits);
  PackRow words{};
  int filled = 0;
  for (std::size_t row = 0; row < kPackGroup; row += kPackLanes, fields += kPackLanes) {
    for (std::size_t lane = 0; lane < kPackLanes; ++lane) words[lane] |= (fields[lane] & mask) << filled;
    filled += bits;
    if (filled < 32) continue;
    std::memcpy(packed, words.data(), sizeof(words));
    packed += sizeof(words);
    filled -= 32;
    words = {};
    if (filled == 0) continue;
    for (std::size_t lane = 0; lane < kPackLanes; ++lane) words[lane] = (fields[lane] & mask) >> (bits - filled);
  }
}

LACONIC_INLINE void unpack_group(const std::byte* packed, int bits, std::uint32_t* fields) {
  const std::uint32_t mask = field_mask(bits);
  PackRow words{};
  int left = 0;  // bits of `words` that are not yet used
  for (std::size_t row = 0; row < kPackGroup; row += kPackLanes, fields += kPackLanes) {
    PackRow field{};
    if (left > 0) {
      for (std::size_t lane = 0; lane < kPackLanes; ++lane) field[lane] = words[lane] >> (32 - left);
    }
    if (left < bits) {
      std::memcpy(words.data(), packed, sizeof(words));
      packed += sizeof(words);
      for (std::size_t lane = 0; lane < kPackLanes; ++lane) field[lane] |= words[lane] << left;
      left += 32;
    }
    left -= bits;
    for (std::size_t lane = 0; lane < kPackLanes; ++lane) fields[lane] = field[lane] & mask;
  }
}

}  // namespace laconic::portable
