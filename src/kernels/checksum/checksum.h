#pragma once

#include <cstddef>
#include <cstdint>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// A 32-bit checksum of any bytes. It always detects a change inside one 32-bit word, and so any flipped bit; it misses
/// other damage about once in 2^32. It is not cryptographic: collisions are easy to construct.
///
/// The bytes are cut into blocks of 64 KiB; the last block is padded with zeros to a multiple of 64 bytes. A block has
/// sixteen lanes, and lane l starts at l + 1. Each 64 bytes, read as sixteen little-endian words, update
/// lane <- ((lane xor word) rotated left by 15)·0x9E3779B1. A block's lanes in order, and then the blocks' results in
/// order, are folded by h <- (h xor next)·0x85EBCA6B rotated left by 13. For a block, h starts with its length in bytes
/// without padding; for the whole, with the low word of the whole length. All arithmetic is modulo 2^32. Blocks are
/// independent until the fold, so threads and devices can share the work. The bytes are read once.
inline constexpr std::size_t kChecksumBlock = 65'536;

std::uint32_t checksum(Place& place, View<const std::byte> bytes);

/// The same, with the 4 bytes at `hole` taken as zero, for a checksum that is stored inside the bytes that it covers.
/// hole is a multiple of 4 below 64, and hole + 4 <= bytes.size().
std::uint32_t checksum_with_hole(Place& place, View<const std::byte> bytes, std::size_t hole);

}  // namespace laconic
