#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/convert/formats.h"
#include "kernels/convert/loops.h"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = HWY_CAPPED(float, 16);
using WordTag = hn::RebindToUnsigned<FloatTag>;
using ShortTag = hn::Rebind<std::uint16_t, FloatTag>;
using Floats = hn::Vec<FloatTag>;
using Words = hn::Vec<WordTag>;

HWY_INLINE Words Word(std::uint32_t value) { return hn::Set(WordTag(), value); }

/// One 16-bit format: narrow and widen a vector, the 16 bits standing in 32-bit lanes. `kInfinity`: the exponent's
/// bits.
struct Half {
  static constexpr std::uint32_t kInfinity = 0x7C00U;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  // The processor's conversion has the bits of formats.h; a test walks through them.
  static HWY_INLINE Words Narrow(Floats value) {
    const hn::Rebind<hwy::float16_t, FloatTag> halves;
    return hn::PromoteTo(WordTag(), hn::BitCast(ShortTag(), hn::DemoteTo(halves, value)));
  }
  static HWY_INLINE Floats Widen(const std::uint16_t* values) {
    const hn::Rebind<hwy::float16_t, FloatTag> halves;
    return hn::PromoteTo(FloatTag(), hn::BitCast(halves, hn::LoadU(ShortTag(), values)));
  }
  static HWY_INLINE Floats WidenWords(Words half) {
    const hn::Rebind<hwy::float16_t, FloatTag> halves;
    const hn::RebindToSigned<FloatTag> integers;
    const auto narrow = hn::DemoteTo(ShortTag(), hn::BitCast(integers, half));
    return hn::PromoteTo(FloatTag(), hn::BitCast(halves, narrow));
  }
#else
  static HWY_INLINE Words Narrow(Floats value) {
    const FloatTag floats;
    const WordTag words;
    const auto bits = hn::BitCast(words, value);
    const auto magnitude = hn::And(bits, Word(formats::kMagnitude));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), Word(1));
    const auto rounded = hn::Add(hn::Add(magnitude, Word(0xFFFU)), odd);
    const auto normal = hn::IfThenElse(hn::Gt(Word(formats::kAboveHalf), rounded),
                                       hn::ShiftRight<13>(hn::Sub(rounded, Word(formats::kRebias))), Word(kInfinity));
    const auto stepped = hn::Add(hn::BitCast(floats, magnitude), hn::Set(floats, 0.5F));
    const auto subnormal = hn::Sub(hn::BitCast(words, stepped), Word(formats::kOneHalf));
    const auto nan = hn::Or(Word(0x7E00U), hn::And(hn::ShiftRight<13>(magnitude), Word(0x3FFU)));
    auto half = hn::IfThenElse(hn::Gt(Word(formats::kSmallestNormalHalf), magnitude), subnormal, normal);
    half = hn::IfThenElse(hn::Gt(magnitude, Word(formats::kExponent)), nan, half);
    return hn::Or(half, hn::And(hn::ShiftRight<16>(bits), Word(0x8000U)));
  }
  static HWY_INLINE Floats Widen(const std::uint16_t* values) {
    return WidenWords(hn::PromoteTo(WordTag(), hn::LoadU(ShortTag(), values)));
  }
  static HWY_INLINE Floats WidenWords(Words half) {
    const FloatTag floats;
    const WordTag words;
    const auto sign = hn::ShiftLeft<16>(hn::And(half, Word(0x8000U)));
    const auto shifted = hn::ShiftLeft<13>(hn::And(half, Word(0x7FFFU)));
    const auto normal = hn::Add(shifted, Word(formats::kRebias));
    const auto offset = hn::Set(floats, 0x1p-14F);
    const auto lifted = hn::BitCast(floats, hn::Add(shifted, Word(formats::kSmallestNormalHalf)));
    const auto subnormal = hn::BitCast(words, hn::Sub(lifted, offset));
    const auto quiet = hn::IfThenElseZero(hn::Gt(shifted, Word(0x7C00U << 13)), Word(0x0040'0000U));
    const auto special = hn::Or(hn::Add(normal, Word(formats::kRebias)), quiet);
    auto bits = hn::IfThenElse(hn::Gt(Word(0x0400U << 13), shifted), subnormal, normal);
    bits = hn::IfThenElse(hn::Gt(shifted, Word((0x7C00U << 13) - 1)), special, bits);
    return hn::BitCast(floats, hn::Or(bits, sign));
  }
#endif
};

struct Bfloat {
  static constexpr std::uint32_t kInfinity = 0x7F80U;

  static HWY_INLINE Words Narrow(Floats value) {
    const WordTag words;
    const auto bits = hn::BitCast(words, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), Word(1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, Word(0x7FFFU)), odd));
    const auto nan = hn::Or(hn::ShiftRight<16>(bits), Word(0x40U));
    const auto magnitude = hn::And(bits, Word(formats::kMagnitude));
    return hn::IfThenElse(hn::Gt(magnitude, Word(formats::kExponent)), nan, rounded);
  }
  static HWY_INLINE Floats Widen(const std::uint16_t* values) {
    return WidenWords(hn::PromoteTo(WordTag(), hn::LoadU(ShortTag(), values)));
  }
  static HWY_INLINE Floats WidenWords(Words bfloat) {
    const auto bits = hn::ShiftLeft<16>(bfloat);
    const auto magnitude = hn::And(bits, Word(formats::kMagnitude));
    const auto quiet = hn::IfThenElseZero(hn::Gt(magnitude, Word(formats::kExponent)), Word(0x0040'0000U));
    return hn::BitCast(FloatTag(), hn::Or(bits, quiet));
  }
};

HWY_INLINE void StoreShorts(Words words, std::uint16_t* out) {
  const hn::RebindToSigned<FloatTag> integers;
  hn::StoreU(hn::DemoteTo(ShortTag(), hn::BitCast(integers, words)), ShortTag(), out);
}

template <class Format>
HWY_INLINE bool AnyNonfinite(Words most) {
  return !hn::AllFalse(WordTag(), hn::Gt(most, Word(Format::kInfinity - 1)));
}

template <class Format>
bool Narrow(const float* HWY_RESTRICT values, ValueFormat format, std::uint16_t* HWY_RESTRICT out, std::size_t n) {
  const FloatTag floats;
  const std::size_t lanes = hn::Lanes(floats);
  auto most = hn::Zero(WordTag());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto narrowed = Format::Narrow(hn::LoadU(floats, values + i));
    most = hn::Max(most, hn::And(narrowed, Word(0x7FFFU)));
    StoreShorts(narrowed, out + i);
  }
  const bool tail = reference::to_16bit(values + i, format, out + i, n - i);
  return AnyNonfinite<Format>(most) || tail;
}

template <class Format>
void Widen(const std::uint16_t* HWY_RESTRICT values, ValueFormat format, float* HWY_RESTRICT out, std::size_t n) {
  const FloatTag floats;
  const std::size_t lanes = hn::Lanes(floats);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(Format::Widen(values + i), floats, out + i);
  }
  reference::from_16bit(values + i, format, out + i, n - i);
}

template <class Format>
bool RoundThrough(ValueFormat format, float* HWY_RESTRICT values, float* HWY_RESTRICT errors, std::size_t n) {
  const FloatTag floats;
  const std::size_t lanes = hn::Lanes(floats);
  auto most = hn::Zero(WordTag());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto value = hn::LoadU(floats, values + i);
    const auto narrowed = Format::Narrow(value);
    const auto widened = Format::WidenWords(narrowed);
    most = hn::Max(most, hn::And(narrowed, Word(0x7FFFU)));
    hn::StoreU(hn::Sub(value, widened), floats, errors + i);
    hn::StoreU(widened, floats, values + i);
  }
  const bool tail = reference::round_through_16bit(format, values + i, errors + i, n - i);
  return AnyNonfinite<Format>(most) || tail;
}

bool NarrowLoop(const float* values, ValueFormat format, std::uint16_t* out, std::size_t n) {
  return format == ValueFormat::f16 ? Narrow<Half>(values, format, out, n) : Narrow<Bfloat>(values, format, out, n);
}

void WidenLoop(const std::uint16_t* values, ValueFormat format, float* out, std::size_t n) {
  format == ValueFormat::f16 ? Widen<Half>(values, format, out, n) : Widen<Bfloat>(values, format, out, n);
}

bool RoundLoop(ValueFormat format, float* values, float* errors, std::size_t n) {
  return format == ValueFormat::f16 ? RoundThrough<Half>(format, values, errors, n)
                                    : RoundThrough<Bfloat>(format, values, errors, n);
}

}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::simd {

bool to_16bit(SimdLevel level, const float* values, ValueFormat format, std::uint16_t* out, std::size_t n) {
  return LACONIC_SIMD_CALL(level, NarrowLoop)(values, format, out, n);
}
void from_16bit(SimdLevel level, const std::uint16_t* values, ValueFormat format, float* out, std::size_t n) {
  LACONIC_SIMD_CALL(level, WidenLoop)(values, format, out, n);
}
bool round_through_16bit(SimdLevel level, ValueFormat format, float* values, float* errors, std::size_t n) {
  return LACONIC_SIMD_CALL(level, RoundLoop)(format, values, errors, n);
}

}  // namespace laconic::simd
#endif
