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
  float scale = 0.0F;
  float multiplier = 0.0F;
  float limit = 0.0F;

  Units() = default;
  explicit Units(const QuantizeScale& from)
      : scale(from.scale), multiplier(from.multiplier * 65536.0F), limit(from.levels * 65536.0F) {}
};

/// One scale for all groups.
struct OneScale {
  QuantizeScale scale;
  Units units;

  HWY_INLINE void take(std::size_t /*begin*/) {}
  HWY_INLINE const QuantizeScale& scale_of(std::size_t /*row*/) const { return scale; }
  HWY_INLINE const Units& units_of(std::size_t /*row*/) const { return units; }
};

/// A scale for each scope that begins in a group. Scopes are whole rows.
class ScopeScales {
 public:
  ScopeScales(const ScopeNorms& norms, int bits)
      : norms_(norms), bits_(bits), shift_(HWY_MIN(norms.shift, kGroupShift) - kRowShift) {}

  HWY_INLINE void take(std::size_t begin) {
    const std::size_t scope = kPackLanes << shift_;
    for (std::size_t i = 0; i * scope < kPackGroup; ++i) {
      scales_[i] = scope_scale(norms_.of(begin + i * scope), bits_);
      units_[i] = Units(scales_[i]);
    }
  }
  HWY_INLINE const QuantizeScale& scale_of(std::size_t row) const { return scales_[row >> shift_]; }
  HWY_INLINE const Units& units_of(std::size_t row) const { return units_[row >> shift_]; }

 private:
  static constexpr int kGroupShift = 9;  // log2 of kPackGroup
  static constexpr int kRowShift = 4;    // log2 of kPackLanes
  static_assert(kPackGroup == 1U << kGroupShift && kPackLanes == 1U << kRowShift);

  ScopeNorms norms_;
  int bits_;
  int shift_;  // log2 of a scope's rows
  QuantizeScale scales_[kScopesOfGroup];
  Units units_[kScopesOfGroup];
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
struct RowQuantizer {
  int bits;
  LaneWriter writer;
  HalfVec highest;

  HWY_INLINE void quantize(const float* row, WordVec random, const Units& units) {
    const FloatVec value = hn::LoadU(QuantizeFloats(), row);
    write(value, rounded(value, random, units), hn::Set(QuantizeWords(), 1U << (bits - 1)));
  }

  /// For fixed scopes, with the rest if it is wanted.
  HWY_INLINE void quantize(const float* row, WordVec random, const Units& units, const QuantizeScale& scale,
                           float* rest) {
    const QuantizeFloats d;
    const QuantizeWords du;
    const FloatVec value = hn::LoadU(d, row);
    const WordVec sum = rounded(value, random, units);
    write(value, sum, hn::Set(du, scale.sign_mask));
    if (rest == nullptr) return;
    const auto level = hn::BitCast(hn::RebindToSigned<QuantizeFloats>(), hn::ShiftRight<16>(sum));
    const WordVec magnitude = hn::BitCast(du, hn::Mul(hn::ConvertTo(d, level), hn::Set(d, scale.step)));
    const WordVec sign = hn::And(hn::BitCast(du, plus_zero(value)), hn::Set(du, 0x8000'0000U));
    hn::StoreU(hn::Sub(value, hn::BitCast(d, hn::Xor(magnitude, sign))), d, rest);
  }

 private:
  static HWY_INLINE FloatVec plus_zero(FloatVec value) { return hn::Add(value, hn::Zero(QuantizeFloats())); }  // of -0

  HWY_INLINE void write(FloatVec value, WordVec sum, WordVec sign_mask) {
    highest = hn::Max(highest, hn::BitCast(QuantizeHalves(), sum));
    const WordVec sign = hn::ShiftRightSame(hn::BitCast(QuantizeWords(), plus_zero(value)), 32 - bits);
    writer.append(hn::OrAnd(hn::ShiftRight<16>(sum), sign, sign_mask), bits);
  }
};

/// Calls body(row, random) for the eight rows that use up one vector of blocks; random bits are in each word's low half.
template <class Body>
HWY_INLINE void for_drawn_rows(std::uint64_t block, const QuantizePhilox& philox, const Body& body) {
  const WordVec low = hn::Set(QuantizeWords(), 0xFFFFU);
  WordVec random0, random1, random2, random3;
  philox.draw(block, random0, random1, random2, random3);
  const auto two_rows = [&](std::size_t row, WordVec random) HWY_ATTR {
    body(row, hn::And(random, low));
    body(row + 1, hn::ShiftRight<16>(random));
  };
  two_rows(0, random0);
  two_rows(2, random1);
  two_rows(4, random2);
  two_rows(6, random3);
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
/// in 130 needs it. `rest` may be null.
template <class Scales>
HWY_NOINLINE void settle_ties(const float* values, const Scales& scales, const Quantizer& quantizer,
                              const QuantizePhilox& philox, std::uint64_t first, std::byte* packed, float* rest) {
  const QuantizeFloats d;
  const QuantizeWords du;
  const std::size_t lanes = hn::Lanes(d);
  const WordVec low = hn::Set(du, 0xFFFFU);
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
        const WordVec draw = row % 2 == 0 ? hn::And(both, low) : hn::ShiftRight<16>(both);
        const WordVec sum = rounded(hn::LoadU(d, values + at), draw, scales.units_of(at / kPackLanes));
        if (hn::AllFalse(du, hn::Eq(hn::And(sum, low), low))) continue;
        hn::Store(sum, du, sums);
        const QuantizeScale& scale = scales.scale_of(at / kPackLanes);
        for (std::size_t i = 0; i < lanes; ++i) {
          if ((sums[i] & 0xFFFF) != 0xFFFF) continue;
          if (!tail_carries(values[at + i], scale, quantizer.rounding, first + at + i)) continue;
          raise_level(packed, quantizer.bits, at + i);
          if (rest == nullptr) continue;
          const float magnitude = static_cast<float>((sums[i] >> 16) + 1) * scale.step;
          rest[at + i] = values[at + i] - (values[at + i] < 0.0F ? -magnitude : magnitude);
        }
      }
    }
  }
}

/// Whole groups. quantize_row(row of the group, number of the row, random bits, where its rest goes, row quantizer).
template <class Scales, class QuantizeRow>
HWY_INLINE void quantize_all(View<const float> values, Scales& scales, const Quantizer& quantizer, std::byte* packed,
                             float* rest, const QuantizeRow& quantize_row) {
  const QuantizeHalves dh;
  const std::size_t lanes = hn::Lanes(QuantizeWords());
  const int bits = quantizer.bits;
  QuantizePhilox philox(quantizer.rounding, quantizer.first / kDrawRows);
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup, packed += packed_bytes(kPackGroup, bits)) {
    const float* group = values.data() + begin;
    float* group_rest = rest == nullptr ? nullptr : rest + begin;
    const std::uint64_t block = (quantizer.first + begin) / kDrawRows;
    if (!philox.covers(block)) philox = QuantizePhilox(quantizer.rounding, block);
    scales.take(begin);
    HalfVec highest = hn::Zero(dh);
    for (std::size_t lane = 0; lane < kPackLanes; lane += lanes) {
      auto* to = reinterpret_cast<std::uint8_t*>(packed + lane * sizeof(std::uint32_t));
      RowQuantizer rows{bits, {hn::Zero(QuantizeWords()), 0, to}, highest};
      for (std::size_t part = 0; part < kPackGroup / kPackLanes; part += kDrawRows) {
        for_drawn_rows(block + part * kPackLanes / kDrawRows + lane, philox,
                       [&](std::size_t row, WordVec random) HWY_ATTR {
                         const std::size_t at = (part + row) * kPackLanes + lane;
                         quantize_row(group + at, part + row, random, group_rest == nullptr ? nullptr : group_rest + at,
                                      rows);
                       });
      }
      highest = rows.highest;
    }
    if (HWY_UNLIKELY(!hn::AllFalse(dh, hn::Eq(highest, hn::Set(dh, 0xFFFF))))) {
      settle_ties(group, scales, quantizer, philox, quantizer.first + begin, packed, group_rest);
    }
  }
}

void quantize_groups(View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
                     std::byte* packed) {
  OneScale scales{scale, Units(scale)};
  quantize_all(values, scales, quantizer, packed, nullptr,
               [&](const float* row, std::size_t, WordVec random, float*, RowQuantizer& rows)
                   HWY_ATTR { rows.quantize(row, random, scales.units); });
}

/// Whole groups to the nearest level: no draws, and no ties between fractions and draws.
HWY_NOINLINE void quantize_to_nearest(View<const float> values, const ScopedRun& run, const Quantizer& quantizer,
                                      std::byte* packed) {
  const WordVec half = hn::Set(QuantizeWords(), kHalfLevel);
  const std::size_t lanes = hn::Lanes(QuantizeWords());
  const int bits = quantizer.bits;
  ScopeScales scales(run.norms, bits);
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup, packed += packed_bytes(kPackGroup, bits)) {
    scales.take(begin);
    for (std::size_t lane = 0; lane < kPackLanes; lane += lanes) {
      auto* to = reinterpret_cast<std::uint8_t*>(packed + lane * sizeof(std::uint32_t));
      RowQuantizer rows{bits, {hn::Zero(QuantizeWords()), 0, to}, hn::Zero(QuantizeHalves())};
      for (std::size_t row = 0; row < kPackGroup / kPackLanes; ++row) {
        const std::size_t at = begin + row * kPackLanes + lane;
        rows.quantize(values.data() + at, half, scales.units_of(row), scales.scale_of(row),
                      run.rest == nullptr ? nullptr : run.rest + at);
      }
    }
  }
}

void quantize_scope_groups(View<const float> values, const ScopedRun& run, const Quantizer& quantizer,
                           std::byte* packed) {
  if (quantizer.kind == Rounding::nearest) return quantize_to_nearest(values, run, quantizer, packed);
  ScopeScales scales(run.norms, quantizer.bits);
  quantize_all(values, scales, quantizer, packed, run.rest,
               [&](const float* row, std::size_t number, WordVec random, float* rest, RowQuantizer& rows) HWY_ATTR {
                 rows.quantize(row, random, scales.units_of(number), scales.scale_of(number), rest);
               });
}

}  // namespace
}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
