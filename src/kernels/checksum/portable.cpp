#include <bit>
#include <cstring>

#include "kernels/checksum/loops.h"
#include "kernels/clones.h"

namespace laconic::portable {
namespace {

/// Lane after lane, each through all stripes: a vector of neighbouring lanes stays in a register.
LACONIC_INLINE void stripes_loop(const std::byte* bytes, std::size_t stripes, ChecksumLanes& lanes) {
  if (stripes == 0) return;  // so that no lane has to ask, which would keep the lanes from becoming vectors
  LACONIC_INDEPENDENT
  for (std::size_t lane = 0; lane < kChecksumLanes; ++lane) {
    std::uint32_t state = lanes[lane];
    for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes + stripe * kStripeBytes + lane * sizeof(word), sizeof(word));
      state = std::rotl(state ^ word, kLaneRotation) * kLaneMultiplier;
    }
    lanes[lane] = state;
  }
}

}  // namespace

void checksum_stripes(SimdLevel level, const std::byte* bytes, std::size_t stripes, ChecksumLanes& lanes) {
  Clones<stripes_loop>::run(level, bytes, stripes, lanes);
}

}  // namespace laconic::portable
