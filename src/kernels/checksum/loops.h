#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "laconic/place.h"

namespace laconic {

inline constexpr std::size_t kChecksumLanes = 16;
inline constexpr std::size_t kStripeBytes = kChecksumLanes * 4;
inline constexpr std::uint32_t kLaneMultiplier = 0x9E3779B1U;
inline constexpr std::uint32_t kFoldMultiplier = 0x85EBCA6BU;
inline constexpr int kLaneRotation = 15;
inline constexpr int kFoldRotation = 13;

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

}  // namespace laconic
