#pragma once

#include <cstddef>
#include <cstdint>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// 32 bits over any bytes. A change confined to one 32-bit word is always noticed, so a flipped bit is; other damage
/// slips through about once in 2^32. Not cryptographic: who wants a collision can make one.
///
/// Bytes are cut into blocks of 64 KiB, the last filled with zeros to a multiple of 64 bytes. A block has sixteen
/// lanes, lane l starting at l + 1; each 64 bytes, as sixteen little-endian words, update lane <- ((lane xor word)
/// rotated left by 15)·0x9E3779B1. A block's lanes in order, then the blocks' results in order, are folded by h <- (h
/// xor next)·0x85EBCA6B rotated left by 13; for a block h starts with its length in bytes without the filling, for the
/// whole with the low word of the whole length. All modulo 2^32. Blocks are independent until the fold, so threads and
/// devices share the work. One read of the bytes.
inline constexpr std::size_t kChecksumBlock = 65'536;

std::uint32_t checksum(Place& place, View<const std::byte> bytes);

/// The same with the 4 bytes at `hole` taken as zero: for a checksum that lies inside what it covers. hole is a
/// multiple of 4 below 64, and hole + 4 <= bytes.size().
std::uint32_t checksum_with_hole(Place& place, View<const std::byte> bytes, std::size_t hole);

}  // namespace laconic
