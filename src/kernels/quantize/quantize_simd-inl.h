// The quantizing loop on vectors. Included once per Highway target, hence the unusual guard.
#if defined(LACONIC_KERNELS_QUANTIZE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_QUANTIZE_SIMD_INL_H_
#undef LACONIC_KERNELS_QUANTIZE_SIMD_INL_H_
#else
#define LACONIC_KERNELS_QUANTIZE_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "kernels/bitpack/bitpack.h"
#include "kernels/philox_simd-inl.h"
#include "kernels/quantize/loops.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace laconic::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using QuantizeFloats = HWY_CAPPED(float, 16);
using QuantizeWords = hn::RebindToUnsigned<QuantizeFloats>;
using QuantizeHalves = hn::Repartition<std::uint16_t, QuantizeWords>;
using QuantizePhilox = PhiloxVector<QuantizeWords>;
using FloatVec = hn::Vec<QuantizeFloats>;
using WordVec = hn::Vec<QuantizeWords>;
using HalfVec = hn::Vec<QuantizeHalves>;

constexpr std::size_t kDrawRows = 8;  // rows of 16 values that one vector of blocks serves
constexpr std::size_t kDrawValues = kDrawRows * kPackLanes;

/// Converts values to units of 2^-16 levels. The reference multiplies r by 65536 at the end. A power of two commutes
/// with every rounding above the subnormal numbers, and those are far below one unit, so it can be part of the
/// multiplier.
struct Units {
  float scale;
  float multiplier;
  float limit;

  explicit Units(const QuantizeScale& from)
      : scale(from.scale), multiplier(from.multiplier * 65536.0F), limit(from.levels * 65536.0F) {}
};

/// Units are below 2^31, so the conversion cannot overflow.
HWY_INLINE WordVec cut(FloatVec units) {
#if HWY_TARGET == HWY_AVX3
  return WordVec{_mm512_cvttps_epi32(units.raw)};
#elif HWY_TARGET == HWY_AVX2
  return WordVec{_mm256_cvttps_epi32(units.raw)};
#else
  const hn::RebindToSigned<QuantizeFloats> di;
  return hn::BitCast(QuantizeWords(), hn::ConvertTo(di, units));
#endif
}

/// The smaller one, and `limit` for NaN.
HWY_INLINE FloatVec at_most(FloatVec units, FloatVec limit) {
#if HWY_ARCH_X86
  return hn::Min(units, limit);  // the instruction's own rule
#else
  return hn::IfThenElse(hn::Lt(units, limit), units, limit);
#endif
}

/// Units plus the 16 random bits: the level is in the bits from bit 16 on.
HWY_INLINE WordVec rounded(FloatVec value, WordVec random, const Units& units) {
  const QuantizeFloats d;
  const auto magnitude = hn::Mul(hn::Abs(value), hn::Set(d, units.scale));
  const auto scaled = hn::Mul(magnitude, hn::Set(d, units.multiplier));
  return hn::Add(cut(at_most(scaled, hn::Set(d, units.limit))), random);
}

/// Packs the fields of one vector of lanes, row after row, and stores a word of each lane when it is full.
struct LaneWriter {
  WordVec word;
  int filled;
  std::uint8_t* to;  // payloads may lie at any byte

  HWY_INLINE void append(WordVec field, int bits) {
    word = hn::Or(word, hn::ShiftLeftSame(field, filled));
    filled += bits;
    if (filled < 32) return;
    const hn::Repartition<std::uint8_t, QuantizeWords> bytes;
    hn::StoreU(hn::BitCast(bytes, word), bytes, to);
    to += kPackLanes * sizeof(std::uint32_t);
    filled -= 32;
    word = hn::ShiftRightSame(field, bits - filled);
  }
};

/// Quantizes a row. `highest` keeps the largest half-words; 0xFFFF appears there only if a fraction ties.
HWY_INLINE void quantize_row(const float* row, WordVec random, const Units& units, int bits, LaneWriter& writer,
                             HalfVec& highest) {
  const QuantizeFloats d;
  const QuantizeWords du;
  const FloatVec value = hn::LoadU(d, row);
  const WordVec sum = rounded(value, random, units);
  highest = hn::Max(highest, hn::BitCast(QuantizeHalves(), sum));
  const FloatVec plus_zero = hn::Add(value, hn::Zero(d));  // -0 + 0 is +0
  const WordVec sign = hn::ShiftRightSame(hn::BitCast(du, plus_zero), 32 - bits);
  writer.append(hn::OrAnd(hn::ShiftRight<16>(sum), sign, hn::Set(du, 1U << (bits - 1))), bits);
}

/// Eight rows, which use up one vector of blocks.
HWY_INLINE void quantize_rows(const float* row, std::uint64_t block, const QuantizePhilox& philox, const Units& units,
                              int bits, LaneWriter& writer, HalfVec& highest) {
  const WordVec low = hn::Set(QuantizeWords(), 0xFFFFU);
  WordVec random0, random1, random2, random3;
  philox.draw(block, random0, random1, random2, random3);
  const auto two_rows = [&](WordVec random) HWY_ATTR {
    quantize_row(row, hn::And(random, low), units, bits, writer, highest);
    quantize_row(row + kPackLanes, hn::ShiftRight<16>(random), units, bits, writer, highest);
    row += 2 * kPackLanes;
  };
  two_rows(random0);
  two_rows(random1);
  two_rows(random2);
  two_rows(random3);
}

/// Adds one to a level of a packed group. The level stays within its field, because a level that ties was below the
/// highest one.
HWY_NOINLINE void raise_level(std::byte* packed, int bits, std::size_t field) {
  const std::size_t bit = field / kPackLanes * static_cast<std::size_t>(bits);
  std::byte* at = packed + (bit / 32 * kPackLanes + field % kPackLanes) * sizeof(std::uint32_t);
  std::uint32_t word;
  std::memcpy(&word, at, sizeof word);
  const std::uint32_t raised = word + (1U << bit % 32);
  std::memcpy(at, &raised, sizeof raised);
  if (raised >= word) return;
  at += kPackLanes * sizeof(std::uint32_t);
  std::memcpy(&word, at, sizeof word);
  ++word;
  std::memcpy(at, &word, sizeof word);
}

/// Revisits a group in which fractions tie with their draws, and decides each tie by the further bits. About one group
/// in 130 needs it.
HWY_NOINLINE void settle_ties(const float* values, const QuantizeScale& scale, const Quantizer& quantizer,
                              const QuantizePhilox& philox, std::uint64_t first, std::byte* packed) {
  const QuantizeFloats d;
  const QuantizeWords du;
  const std::size_t lanes = hn::Lanes(d);
  const WordVec low = hn::Set(du, 0xFFFFU);
  const Units units(scale);
  HWY_ALIGN std::uint32_t random[4 * kPackLanes];
  HWY_ALIGN std::uint32_t sums[kPackLanes];
  for (std::size_t part = 0; part < kPackGroup; part += kDrawValues) {
    for (std::size_t lane = 0; lane < kPackLanes; lane += lanes) {
      WordVec random0, random1, random2, random3;
      philox.draw((first + part) / kDrawRows + lane, random0, random1, random2, random3);
      hn::Store(random0, du, random);
      hn::Store(random1, du, random + lanes);
      hn::Store(random2, du, random + 2 * lanes);
      hn::Store(random3, du, random + 3 * lanes);
      for (std::size_t row = 0; row < kDrawRows; ++row) {
        const WordVec both = hn::Load(du, random + row / 2 * lanes);
        const std::size_t at = part + row * kPackLanes + lane;
        const WordVec sum =
            rounded(hn::LoadU(d, values + at), row % 2 == 0 ? hn::And(both, low) : hn::ShiftRight<16>(both), units);
        if (hn::AllFalse(du, hn::Eq(hn::And(sum, low), low))) continue;
        hn::Store(sum, du, sums);
        for (std::size_t i = 0; i < lanes; ++i) {
          if ((sums[i] & 0xFFFF) != 0xFFFF) continue;
          if (tail_carries(values[at + i], scale, quantizer.rounding, first + at + i)) {
            raise_level(packed, quantizer.bits, at + i);
          }
        }
      }
    }
  }
}

/// Whole groups.
void quantize_groups(View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
                     std::byte* packed) {
  const QuantizeHalves dh;
  const std::size_t lanes = hn::Lanes(QuantizeWords());
  const int bits = quantizer.bits;
  const Units units(scale);
  QuantizePhilox philox(quantizer.rounding, quantizer.first / kDrawRows);
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup, packed += packed_bytes(kPackGroup, bits)) {
    const float* group = values.data() + begin;
    const std::uint64_t block = (quantizer.first + begin) / kDrawRows;
    if (!philox.covers(block)) philox = QuantizePhilox(quantizer.rounding, block);
    HalfVec highest = hn::Zero(dh);
    for (std::size_t lane = 0; lane < kPackLanes; lane += lanes) {
      auto* to = reinterpret_cast<std::uint8_t*>(packed + lane * sizeof(std::uint32_t));
      LaneWriter writer{hn::Zero(QuantizeWords()), 0, to};
      for (std::size_t part = 0; part < kPackGroup; part += kDrawValues) {
        quantize_rows(group + part + lane, block + part / kDrawRows + lane, philox, units, bits, writer, highest);
      }
    }
    if (HWY_UNLIKELY(!hn::AllFalse(dh, hn::Eq(highest, hn::Set(dh, 0xFFFF))))) {
      settle_ties(group, scale, quantizer, philox, quantizer.first + begin, packed);
    }
  }
}

}  // namespace
}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
