#include <algorithm>
#include <array>
#include <bit>

#include "kernels/norm/loops.h"
#include "kernels/norm/norm.h"

namespace laconic::reference {
namespace {

View<const float> block_at(View<const float> values, std::size_t begin) {
  return values.sub(begin, std::min(kNormBlock, values.size() - begin));
}

}  // namespace

void block_squares(View<const float> values, double* sums) {
  for (std::size_t begin = 0; begin < values.size(); begin += kNormBlock) {
    const View<const float> block = block_at(values, begin);
    std::array<double, 16> lanes{};
    for (std::size_t i = 0; i < block.size(); ++i) {
      const double value = block[i];
      lanes[i % lanes.size()] += value * value;
    }
    for (std::size_t half = lanes.size() / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    *sums++ = lanes[0];
  }
}

void block_largest(View<const float> values, std::uint32_t* largest) {
  for (std::size_t begin = 0; begin < values.size(); begin += kNormBlock) {
    std::uint32_t most = 0;
    for (const float value : block_at(values, begin)) {
      most = std::max(most, std::bit_cast<std::uint32_t>(value) & 0x7FFF'FFFFU);
    }
    *largest++ = most;
  }
}

}  // namespace laconic::reference
