#pragma once

#include <cstddef>
#include <cstdint>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// 32 bits over any bytes. A change confined to one 32-bit word is always noticed, so a flipped bit is; any other with
/// probability 1 - 2^-32. Not cryptographic.
///
/// Bytes are cut into blocks of 64 KiB, the last filled with zeros to a multiple of 64 bytes. A block has sixteen lanes,
/// lane l starting at l + 1; each 64 bytes, as sixteen little-endian words, update lane <- (lane xor word)·0x9E3779B1.
/// The lanes, then the blocks, are folded in order by h <- (h xor next)·0x85EBCA6B rotated left by 13, h starting with the
/// length in bytes. Blocks are independent until the fold, so threads and devices share the work.
inline constexpr std::size_t kChecksumBlock = 65'536;

std::uint32_t checksum(Place& place, View<const std::byte> bytes);

}  // namespace laconic
