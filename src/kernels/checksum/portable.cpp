#include <bit>
#include <cstring>

#include "kernels/checksum/loops.h"
#include "kernels/clones.h"

namespace laconic::portable {
namespace {

LACONIC_INLINE void stripes_loop(const std::byte* bytes, std::size_t stripes, ChecksumLanes& lanes) {
  ChecksumLanes state = lanes;
  for (std::size_t stripe = 0; stripe < stripes; ++stripe, bytes += kStripeBytes) {
#pragma GCC unroll 1  // g++ would unroll it first, and then finds vectors in a part of it only
    for (std::size_t lane = 0; lane < kChecksumLanes; ++lane) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes + lane * sizeof(word), sizeof(word));
      state[lane] = std::rotl(state[lane] ^ word, kLaneRotation) * kLaneMultiplier;
    }
  }
  lanes = state;
}

}  // namespace

void checksum_stripes(SimdLevel level, const std::byte* bytes, std::size_t stripes, ChecksumLanes& lanes) {
  Clones<stripes_loop>::run(level, bytes, stripes, lanes);
}

}  // namespace laconic::portable
