#include <bit>
#include <cstring>

#include "kernels/checksum/loops.h"

namespace laconic::reference {

void checksum_stripes(const std::byte* bytes, std::size_t stripes, ChecksumLanes& lanes) {
  for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
    for (std::size_t lane = 0; lane < kChecksumLanes; ++lane) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes + stripe * kStripeBytes + lane * sizeof(word), sizeof(word));
      lanes[lane] = std::rotl(lanes[lane] ^ word, kLaneRotation) * kLaneMultiplier;
    }
  }
}

}  // namespace laconic::reference
