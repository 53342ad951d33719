#include <cstring>
#include <type_traits>

#include "kernels/sign/loops.h"
#include "kernels/sign/sign.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sign/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = HWY_CAPPED(float, 16);
using Signed = hn::RebindToSigned<Floats>;
using Unsigned = hn::RebindToUnsigned<Floats>;

/// A mask as bits, lane 0 lowest.
template <class M>
HWY_INLINE std::uint32_t bits_of(M mask) {
  const Floats d;
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  std::conditional_t<(hn::MaxLanes(Floats()) > 8), std::uint16_t, std::uint8_t> bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

/// Signs of the 32 values at `values`; `largest` keeps the largest magnitudes as bits.
template <class V>
HWY_INLINE std::uint32_t pack_word(const float* values, V& largest) {
  const Floats d;
  const Signed di;
  const std::size_t lanes = hn::Lanes(d);
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < kSignsPerWord; i += lanes) {
    const auto value = hn::LoadU(d, values + i);
    largest = hn::Max(largest, hn::And(hn::BitCast(di, value), hn::Set(di, 0x7FFF'FFFF)));
    word |= bits_of(hn::Lt(value, hn::Zero(d))) << i;
  }
  return word;
}

/// Whole words only. True if a value was NaN or Inf: magnitudes as bits order like integers, those two on top.
bool pack_words(const float* values, std::size_t words, std::uint32_t* out) {
  const Signed di;
  auto largest = hn::Zero(di);
  for (std::size_t word = 0; word < words; ++word) out[word] = pack_word(values + word * kSignsPerWord, largest);
  return hn::GetLane(hn::MaxOfLanes(di, largest)) >= 0x7F80'0000;
}

void unpack_words(const std::uint32_t* words, std::size_t count, float magnitude, float* values) {
  const Floats d;
  const Unsigned du;
  const std::size_t lanes = hn::Lanes(d);
  const auto plus = hn::BitCast(du, hn::Set(d, magnitude));
  const auto sign = hn::Set(du, 0x8000'0000U);
  const auto to_top = hn::Sub(hn::Set(du, 31), hn::Iota(du, 0));
  for (std::size_t word = 0; word < count; ++word) {
    for (std::size_t i = 0; i < kSignsPerWord; i += lanes) {
      const auto bits = hn::Shl(hn::Set(du, words[word] >> i), to_top);
      hn::StoreU(hn::BitCast(d, hn::Xor(plus, hn::And(bits, sign))), d, values + word * kSignsPerWord + i);
    }
  }
}

}  // namespace
}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::simd {

bool pack_signs(SimdLevel level, View<const float> values, std::uint32_t* words) {
  const std::size_t whole = values.size() / kSignsPerWord;
  const bool nonfinite = LACONIC_SIMD_CALL(level, pack_words)(values.data(), whole, words);
  const std::size_t done = whole * kSignsPerWord;
  return reference::pack_signs(values.sub(done, values.size() - done), words + whole) || nonfinite;
}

void unpack_signs(SimdLevel level, const std::uint32_t* words, float magnitude, View<float> values) {
  const std::size_t whole = values.size() / kSignsPerWord;
  LACONIC_SIMD_CALL(level, unpack_words)(words, whole, magnitude, values.data());
  const std::size_t done = whole * kSignsPerWord;
  reference::unpack_signs(words + whole, magnitude, values.sub(done, values.size() - done));
}

}  // namespace laconic::simd
#endif
