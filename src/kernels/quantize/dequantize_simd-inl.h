// The dequantizing loop on vectors. Included once a Highway target, hence the unusual guard.
#if defined(LACONIC_KERNELS_DEQUANTIZE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_DEQUANTIZE_SIMD_INL_H_
#undef LACONIC_KERNELS_DEQUANTIZE_SIMD_INL_H_
#else
#define LACONIC_KERNELS_DEQUANTIZE_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <utility>

#include "kernels/bitpack/bitpack.h"
#include "laconic/view.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace laconic {
namespace HWY_NAMESPACE {
namespace {

/// One vector of lanes of a group: adds the values of its 32 rows.
template <int kBits>
class Dequantizer {
  using Floats = HWY_CAPPED(float, 16);
  using Words = hwy::HWY_NAMESPACE::RebindToUnsigned<Floats>;
  using Word = hwy::HWY_NAMESPACE::Vec<Words>;

 public:
  static HWY_INLINE void add(const std::byte* packed, float step, float* values) {
    Word word = load<0>(packed);
    add_rows(packed, step, values, word, std::make_integer_sequence<int, kRows>());
  }

 private:
  static constexpr int kRows = static_cast<int>(kPackGroup / kPackLanes);

  template <int kWord>
  static HWY_INLINE Word load(const std::byte* packed) {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::Repartition<std::uint8_t, Words> bytes;  // payloads may lie at any byte
    const auto* from = reinterpret_cast<const std::uint8_t*>(packed) + kWord * kPackLanes * sizeof(std::uint32_t);
    return hn::BitCast(Words(), hn::LoadU(bytes, from));
  }

  template <int... kRow>
  static HWY_INLINE void add_rows(const std::byte* packed, float step, float* values, Word& word,
                                  std::integer_sequence<int, kRow...>) {
    (add_row<kRow>(packed, step, values, word), ...);
  }

  /// `word` holds the lanes' words in which the row's fields begin, and afterwards those of the next row.
  template <int kRow>
  static HWY_INLINE void add_row(const std::byte* packed, float step, float* values, Word& word) {
    namespace hn = hwy::HWY_NAMESPACE;
    const Floats d;
    const Words du;
    constexpr int kShift = kRow * kBits % 32;
    constexpr int kWord = kRow * kBits / 32;
    constexpr int kEnd = kShift + kBits;
    Word field = hn::ShiftRight<kShift>(word);
    Word sign = word;  // its top bit comes to stand at bit 31
    if constexpr (kEnd > 32) {
      word = load<kWord + 1>(packed);
      field = hn::Or(field, hn::ShiftLeft<32 - kShift>(word));
      sign = hn::ShiftLeft<64 - kEnd>(word);
    } else {
      sign = hn::ShiftLeft<32 - kEnd>(word);
    }
    if constexpr (kEnd == 32 && kRow + 1 < kRows) word = load<kWord + 1>(packed);
    const Word level = hn::And(field, hn::Set(du, (1U << (kBits - 1)) - 1));
    const hn::RebindToSigned<Floats> di;
    const auto magnitude = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, level)), hn::Set(d, step));
    const auto addend = hn::Xor(magnitude, hn::BitCast(d, hn::And(sign, hn::Set(du, 0x8000'0000U))));
    float* row = values + kRow * kPackLanes;
    hn::StoreU(hn::Add(hn::LoadU(d, row), addend), d, row);
  }
};

/// Whole groups.
template <int kBits>
HWY_NOINLINE void dequantize_width(const std::byte* packed, float step, View<float> values) {
  const std::size_t lanes = hwy::HWY_NAMESPACE::Lanes(HWY_CAPPED(float, 16)());
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup, packed += packed_bytes(kPackGroup, kBits)) {
    for (std::size_t lane = 0; lane < kPackLanes; lane += lanes) {
      Dequantizer<kBits>::add(packed + lane * sizeof(std::uint32_t), step, values.data() + begin + lane);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace laconic
HWY_AFTER_NAMESPACE();
#endif

#endif
