#pragma once

#include <cstddef>
#include <cstdint>

#include "base/philox.h"

namespace laconic {

/// The numbers of one random stream, one after the other, for data that the program draws.
class Draws {
 public:
  explicit Draws(const RandomStream& stream) : stream_(stream) {}

  std::uint32_t bits() {
    if (used_ == 4) {
      block_ = stream_.block(next_++);
      used_ = 0;
    }
    return block_[used_++];
  }
  /// In [low, high).
  float between(float low, float high) {
    return low + (high - low) * (static_cast<float>(bits() >> 8) * (1.0F / 16777216.0F));
  }
  int below(int bound) { return static_cast<int>(std::uint64_t{bits()} * static_cast<std::uint64_t>(bound) >> 32); }

 private:
  RandomStream stream_;
  PhiloxBlock block_{};
  std::size_t used_ = 4;
  std::uint64_t next_ = 0;
};

}  // namespace laconic
