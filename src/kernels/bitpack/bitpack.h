#pragma once

#include <cstddef>
#include <cstdint>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

// Fields of equal width, packed so that vectors of up to sixteen lanes need no permutes. The layout is the same on the
// wire and in memory. A full group is 512 fields: field f is in lane f mod 16, row f div 16. Each lane packs its 32
// rows into `bits` little-endian words, row 0 lowest; word w of lane l is word 16·w + l of the group. The fields after
// the last full group follow as one plain little-endian bit stream, its last byte filled with zeros.

inline constexpr std::uint64_t kPackLanes = 16;
inline constexpr std::uint64_t kPackGroup = 512;

/// ceil(n·bits/8). A full group of 512 fields has exactly 64·bits bytes.
constexpr std::uint64_t packed_bytes(std::uint64_t n, int bits) {
  return (n * static_cast<std::uint64_t>(bits) + 7) / 8;
}

/// bits in 0..32; each field must be below 2^bits (higher bits are cut off). packed.size() == packed_bytes(n, bits).
void pack_fields(Place& place, View<const std::uint32_t> fields, int bits, View<std::byte> packed);
void unpack_fields(Place& place, View<const std::byte> packed, int bits, View<std::uint32_t> fields);

}  // namespace laconic
