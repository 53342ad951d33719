#include <algorithm>
#include <array>

#include "kernels/norm/loops.h"
#include "kernels/norm/norm.h"
#include "kernels/prefetch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Doubles = HWY_CAPPED(double, 8);
using Halves = hn::Rebind<float, Doubles>;
using Floats = HWY_CAPPED(float, 16);
using Signed = hn::RebindToSigned<Floats>;

constexpr std::size_t kSums = 16;

/// Adds the squares of values[0], values[16], ... to the sums from `sums` on, two vectors of lanes at a time.
HWY_INLINE void add_squares(const float* values, std::size_t rows, double* sums) {
  const Doubles d;
  const Halves h;
  const std::size_t lanes = hn::Lanes(d);
  auto low = hn::LoadU(d, sums);
  auto high = hn::LoadU(d, sums + lanes);
  for (std::size_t row = 0; row < rows; ++row, values += kSums) {
    const auto first = hn::PromoteTo(d, hn::LoadU(h, values));
    const auto second = hn::PromoteTo(d, hn::LoadU(h, values + lanes));
    low = hn::Add(low, hn::Mul(first, first));
    high = hn::Add(high, hn::Mul(second, second));
  }
  hn::StoreU(low, d, sums);
  hn::StoreU(high, d, sums + lanes);
}

void square_blocks(View<const float> values, double* sums) {
  const std::size_t step = 2 * hn::Lanes(Doubles());
  for (std::size_t begin = 0; begin < values.size(); begin += kNormBlock) {
    const float* block = values.data() + begin;
    const std::size_t count = std::min(kNormBlock, values.size() - begin);
    std::array<double, kSums> lanes{};
    for (std::size_t lane = 0; lane < kSums; lane += step) {
      add_squares(block + lane, count / kSums, lanes.data() + lane);
    }
    for (std::size_t i = count / kSums * kSums; i < count; ++i) {
      const double value = block[i];
      lanes[i % kSums] += value * value;
    }
    for (std::size_t half = kSums / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    *sums++ = lanes[0];
  }
}

/// Short scopes, one call after another, otherwise wait for memory: with AVX-512 they took seven times as long.
constexpr std::size_t kBytesAhead = 4096;

// Magnitudes as bits order like integers, NaN above Inf, so integer maxima do it on every target alike.
void largest_blocks(View<const float> values, std::uint32_t* largest) {
  const Signed d;
  const Floats f;
  const std::size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(d, 0x7FFF'FFFF);
  for (std::size_t begin = 0; begin < values.size(); begin += kNormBlock) {
    const std::size_t end = std::min(begin + kNormBlock, values.size());
    auto first = hn::Zero(d);
    auto second = hn::Zero(d);
    std::size_t i = begin;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      prefetch_ahead(values.data() + i, kBytesAhead);
      if constexpr (hn::MaxLanes(f) == 16) prefetch_ahead(values.data() + i + lanes, kBytesAhead);  // a cache line each
      first = hn::Max(first, hn::And(hn::BitCast(d, hn::LoadU(f, values.data() + i)), magnitude));
      second = hn::Max(second, hn::And(hn::BitCast(d, hn::LoadU(f, values.data() + i + lanes)), magnitude));
    }
    auto most = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(d, hn::Max(first, second))));
    std::uint32_t rest = 0;
    if (i < end) reference::block_largest(values.sub(i, end - i), &rest);
    *largest++ = std::max(most, rest);
  }
}

}  // namespace
}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::simd {

void block_squares(SimdLevel level, View<const float> values, double* sums) {
  LACONIC_SIMD_CALL(level, square_blocks)(values, sums);
}

void block_largest(SimdLevel level, View<const float> values, std::uint32_t* largest) {
  LACONIC_SIMD_CALL(level, largest_blocks)(values, largest);
}

}  // namespace laconic::simd
#endif
