#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/checksum/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/checksum/loops.h"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

void StripesLoop(const std::byte* bytes, std::size_t stripes, ChecksumLanes& lanes) {
  reference::checksum_stripes(bytes, stripes, lanes);
}

#else

using WordTag = HWY_CAPPED(std::uint32_t, 16);
using Words = hn::Vec<WordTag>;

HWY_INLINE Words Mixed(Words lane, const std::uint8_t* bytes) {
  const hn::Repartition<std::uint8_t, WordTag> octets;
  const WordTag words;
  const auto word = hn::BitCast(words, hn::LoadU(octets, bytes));
  return hn::Mul(hn::RotateRight<32 - kLaneRotation>(hn::Xor(lane, word)), hn::Set(words, kLaneMultiplier));
}

/// kVectors vectors hold the sixteen lanes in registers over all stripes.
template <std::size_t kVectors>
HWY_INLINE void Stripes(const std::uint8_t* bytes, std::size_t stripes, std::uint32_t* lanes) {
  const WordTag words;
  const std::size_t width = hn::Lanes(words);
  Words state0 = hn::LoadU(words, lanes);
  Words state1 = hn::LoadU(words, lanes + (kVectors > 1 ? width : 0));
  Words state2 = hn::LoadU(words, lanes + (kVectors > 2 ? 2 * width : 0));
  Words state3 = hn::LoadU(words, lanes + (kVectors > 2 ? 3 * width : 0));
  for (std::size_t stripe = 0; stripe < stripes; ++stripe, bytes += kStripeBytes) {
    state0 = Mixed(state0, bytes);
    if constexpr (kVectors > 1) state1 = Mixed(state1, bytes + 4 * width);
    if constexpr (kVectors > 2) state2 = Mixed(state2, bytes + 8 * width);
    if constexpr (kVectors > 2) state3 = Mixed(state3, bytes + 12 * width);
  }
  hn::StoreU(state0, words, lanes);
  if constexpr (kVectors > 1) hn::StoreU(state1, words, lanes + width);
  if constexpr (kVectors > 2) hn::StoreU(state2, words, lanes + 2 * width);
  if constexpr (kVectors > 2) hn::StoreU(state3, words, lanes + 3 * width);
}

void StripesLoop(const std::byte* bytes, std::size_t stripes, ChecksumLanes& lanes) {
  const auto* octets = reinterpret_cast<const std::uint8_t*>(bytes);
  switch (hn::Lanes(WordTag())) {
    case 16: Stripes<1>(octets, stripes, lanes.data()); break;
    case 8: Stripes<2>(octets, stripes, lanes.data()); break;
    default: Stripes<4>(octets, stripes, lanes.data()); break;
  }
}

#endif

}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::simd {

void checksum_stripes(SimdLevel level, const std::byte* bytes, std::size_t stripes, ChecksumLanes& lanes) {
  LACONIC_SIMD_CALL(level, StripesLoop)(bytes, stripes, lanes);
}

}  // namespace laconic::simd
#endif
