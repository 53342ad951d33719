#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

inline constexpr std::size_t kChecksumLanes = 16;
inline constexpr std::size_t kStripeBytes = kChecksumLanes * 4;
inline constexpr std::uint32_t kLaneMultiplier = 0x9E3779B1U;
inline constexpr std::uint32_t kFoldMultiplier = 0x85EBCA6BU;
inline constexpr int kLaneRotation = 15;
inline constexpr int kFoldRotation = 13;

/// No multiple of 4 below kStripeBytes, where a hole may be.
inline constexpr std::size_t kNoHole = kStripeBytes;

/// A block's or the whole's hash with one more lane's or block's.
constexpr std::uint32_t folded(std::uint32_t hash, std::uint32_t next) {
  return std::rotl((hash ^ next) * kFoldMultiplier, kFoldRotation);
}

using ChecksumLanes = std::array<std::uint32_t, kChecksumLanes>;

// Feeds `stripes` times 64 bytes into the lanes.
namespace reference {
void checksum_stripes(const std::byte* bytes, std::size_t stripes, ChecksumLanes& lanes);
}  // namespace reference
namespace portable {
void checksum_stripes(SimdLevel level, const std::byte* bytes, std::size_t stripes, ChecksumLanes& lanes);
}  // namespace portable
namespace simd {
void checksum_stripes(SimdLevel level, const std::byte* bytes, std::size_t stripes, ChecksumLanes& lanes);
}  // namespace simd

// The twin, on a place's stream: the checksum, or with kNoHole the plain one, into one word of the place's memory. If
// `length` is not null, it points to a 64-bit number in the place's memory, and the checksum covers that many of the
// bytes, but not more than there are.
namespace cuda {
void checksum(Place& place, View<const std::byte> bytes, const std::byte* length, std::size_t hole,
              View<std::uint32_t> result);
}  // namespace cuda

}  // namespace laconic
