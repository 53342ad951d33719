#include "base/keep.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "laconic/error.h"

namespace laconic {

std::uint64_t keep_count(double keep, std::uint64_t n) {
  if (!(keep > 0.0 && keep <= 1.0)) {
    std::ostringstream message;
    message << "keep must be in (0, 1], got " << keep << ": it is the share of entries that is sent, 0.01 for 1 %";
    throw InvalidConfig(message.str());
  }
  if (n == 0) return 0;
  const auto count = static_cast<std::uint64_t>(std::floor(keep * static_cast<double>(n)));
  return std::clamp<std::uint64_t>(count, 1, n);
}

std::uint64_t block_count(double ratio, std::uint64_t n) {
  if (!(ratio >= 1.0 && std::isfinite(ratio))) {
    std::ostringstream message;
    message << "ratio must be 1 or more, got " << ratio << ": one entry in `ratio` is sent, 64 for 1.6 %";
    throw InvalidConfig(message.str());
  }
  if (n == 0) return 0;
  const auto count = static_cast<std::uint64_t>(std::floor(static_cast<double>(n) / ratio));
  return std::clamp<std::uint64_t>(count, 1, n);
}

std::uint32_t levels_of(int bits) {
  if (bits < 2 || bits > 16) {
    std::ostringstream message;
    message << "bits must be in 2..16, got " << bits
            << ": one bit is the sign, so 2 is the fewest; for one bit a coordinate use a sign method";
    throw InvalidConfig(message.str());
  }
  return (std::uint32_t{1} << (bits - 1)) - 1;
}

}  // namespace laconic
