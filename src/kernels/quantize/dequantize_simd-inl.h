// The dequantizing loop on vectors. Included once a Highway target, hence the unusual guard.
#if defined(LACONIC_KERNELS_DEQUANTIZE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_DEQUANTIZE_SIMD_INL_H_
#undef LACONIC_KERNELS_DEQUANTIZE_SIMD_INL_H_
#else
#define LACONIC_KERNELS_DEQUANTIZE_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/bitpack/bitpack.h"
#include "laconic/view.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace laconic {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DequantizeFloats = HWY_CAPPED(float, 16);
using DequantizeSigned = hn::RebindToSigned<DequantizeFloats>;
using DequantizeWords = hn::RebindToUnsigned<DequantizeFloats>;

constexpr std::size_t kDequantizeRows = kPackGroup / kPackLanes;
constexpr std::size_t kWordRow = kPackLanes * sizeof(std::uint32_t);

HWY_INLINE hn::Vec<DequantizeWords> load_lane_words(const std::byte* packed) {
  const hn::Repartition<std::uint8_t, DequantizeWords> bytes;  // payloads may lie at any byte
  return hn::BitCast(DequantizeWords(), hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(packed)));
}

HWY_INLINE void add_row(hn::Vec<DequantizeFloats> addend, float* row) {
  const DequantizeFloats d;
  hn::StoreU(hn::Add(hn::LoadU(d, row), addend), d, row);
}

/// The values of fields.
class FieldValues {
  using Float = hn::Vec<DequantizeFloats>;
  using Word = hn::Vec<DequantizeWords>;

 public:
  /// `step` is the value of one level.
  HWY_INLINE FieldValues(float step, int bits)
      : step_(hn::Set(DequantizeFloats(), step)), level_mask_(hn::Set(DequantizeWords(), (1U << (bits - 1)) - 1)) {}

  /// The field stands in the lowest bits of `field`, its sign in the top bit of `sign`; other bits do not matter.
  HWY_INLINE Float of(Word field, Word sign) const {
    const auto level = hn::BitCast(DequantizeSigned(), hn::And(field, level_mask_));
    const Float magnitude = hn::Mul(hn::ConvertTo(DequantizeFloats(), level), step_);
    const Word flip = hn::And(sign, hn::Set(DequantizeWords(), 0x8000'0000U));
    return hn::BitCast(DequantizeFloats(), hn::Xor(hn::BitCast(DequantizeWords(), magnitude), flip));
  }

 private:
  Float step_;
  Word level_mask_;
};

/// Adds one vector of lanes of a group, for any width.
HWY_INLINE void add_lanes(const std::byte* packed, const FieldValues& value, int bits, float* values) {
  auto word = hn::Zero(DequantizeWords());
  int left = 0;  // bits of `word` that are not yet used
  for (std::size_t row = 0; row < kDequantizeRows; ++row) {
    auto field = left == 0 ? word : hn::ShiftRightSame(word, 32 - left);
    if (left < bits) {
      word = load_lane_words(packed);
      packed += kWordRow;
      field = left == 0 ? word : hn::Or(field, hn::ShiftLeftSame(word, left));
      left += 32;
    }
    left -= bits;
    add_row(value.of(field, hn::ShiftLeftSame(field, 32 - bits)), values + row * kPackLanes);
  }
}

/// The same where a word holds eight fields. With sixteen lanes the values of all fields are one vector, in which they
/// are looked up.
HWY_INLINE void add_lanes_4(const std::byte* packed, const FieldValues& value, float* values) {
  const DequantizeFloats d;
  const DequantizeWords du;
  const auto every = hn::Iota(du, 0);
  const auto table = value.of(every, hn::ShiftLeft<28>(every));
  for (int index = 0; index < 4; ++index, packed += kWordRow) {
    auto word = load_lane_words(packed);
    for (int row = 0; row < 8; ++row, values += kPackLanes, word = hn::ShiftRight<4>(word)) {
      if constexpr (hn::MaxLanes(d) == 16) {
        const auto field = hn::And(word, hn::Set(du, 15));
        add_row(hn::TableLookupLanes(table, hn::IndicesFromVec(d, field)), values);
      } else {
        add_row(value.of(word, hn::ShiftLeft<28>(word)), values);
      }
    }
  }
}

/// And where it holds four.
HWY_INLINE void add_lanes_8(const std::byte* packed, const FieldValues& value, float* values) {
  for (int index = 0; index < 8; ++index, packed += kWordRow, values += 4 * kPackLanes) {
    const auto word = load_lane_words(packed);
    add_row(value.of(word, hn::ShiftLeft<24>(word)), values);
    add_row(value.of(hn::ShiftRight<8>(word), hn::ShiftLeft<16>(word)), values + kPackLanes);
    add_row(value.of(hn::ShiftRight<16>(word), hn::ShiftLeft<8>(word)), values + 2 * kPackLanes);
    add_row(value.of(hn::ShiftRight<24>(word), word), values + 3 * kPackLanes);
  }
}

/// Whole groups.
void dequantize_groups(const std::byte* packed, float step, int bits, View<float> values) {
  const std::size_t lanes = hn::Lanes(DequantizeFloats());
  const FieldValues value(step, bits);
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup, packed += packed_bytes(kPackGroup, bits)) {
    for (std::size_t lane = 0; lane < kPackLanes; lane += lanes) {
      const std::byte* from = packed + lane * sizeof(std::uint32_t);
      float* to = values.data() + begin + lane;
      switch (bits) {
        case 4: add_lanes_4(from, value, to); break;
        case 8: add_lanes_8(from, value, to); break;
        default: add_lanes(from, value, bits, to); break;
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace laconic
HWY_AFTER_NAMESPACE();
#endif

#endif
