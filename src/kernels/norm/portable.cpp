#include <algorithm>
#include <array>
#include <bit>

#include "kernels/clones.h"
#include "kernels/norm/loops.h"
#include "kernels/norm/norm.h"

namespace laconic::portable {
namespace {

constexpr std::size_t kSums = 16;

LACONIC_INLINE void square_blocks(View<const float> values, double* sums) {
  for (std::size_t begin = 0; begin < values.size(); begin += kNormBlock) {
    const float* block = values.data() + begin;
    const std::size_t count = std::min(kNormBlock, values.size() - begin);
    const std::size_t whole = count / kSums * kSums;
    std::array<double, kSums> lanes{};
    for (std::size_t i = 0; i < whole; i += kSums) {
      for (std::size_t lane = 0; lane < kSums; ++lane) {
        const double value = block[i + lane];
        lanes[lane] += value * value;
      }
    }
    for (std::size_t i = whole; i < count; ++i) {
      const double value = block[i];
      lanes[i - whole] += value * value;
    }
    for (std::size_t half = kSums / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    *sums++ = lanes[0];
  }
}

LACONIC_INLINE void largest_blocks(View<const float> values, std::uint32_t* largest) {
  for (std::size_t begin = 0; begin < values.size(); begin += kNormBlock) {
    const float* block = values.data() + begin;
    const std::size_t count = std::min(kNormBlock, values.size() - begin);
    std::int32_t most = 0;
    for (std::size_t i = 0; i < count; ++i) most = std::max(most, std::bit_cast<std::int32_t>(block[i]) & 0x7FFF'FFFF);
    *largest++ = static_cast<std::uint32_t>(most);
  }
}

}  // namespace

void block_squares(SimdLevel level, View<const float> values, double* sums) {
  Clones<square_blocks>::run(level, values, sums);
}

void block_largest(SimdLevel level, View<const float> values, std::uint32_t* largest) {
  Clones<largest_blocks>::run(level, values, largest);
}

}  // namespace laconic::portable
