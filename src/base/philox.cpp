#include "base/philox.h"

#include "base/check.h"

namespace laconic {
namespace {

__extension__ using Wide = unsigned __int128;

}  // namespace

std::uint64_t draw_below(const RandomStream& stream, std::uint64_t i, std::uint64_t bound) {
  LACONIC_CHECK(bound > 0U);
  const std::uint64_t refused = (0 - bound) % bound;
  for (;; i += std::uint64_t{1} << 32) {
    const PhiloxBlock block = stream.block(i);
    const std::uint64_t bits = std::uint64_t{block[1]} << 32 | block[0];
    const auto product = static_cast<Wide>(bits) * bound;
    if (static_cast<std::uint64_t>(product) >= refused) return static_cast<std::uint64_t>(product >> 64);
  }
}

}  // namespace laconic
