// The dequantizing loop on vectors. Included once per Highway target, hence the unusual guard.
#if defined(LACONIC_KERNELS_DEQUANTIZE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_DEQUANTIZE_SIMD_INL_H_
#undef LACONIC_KERNELS_DEQUANTIZE_SIMD_INL_H_
#else
#define LACONIC_KERNELS_DEQUANTIZE_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <utility>

#include "kernels/bitpack/bitpack.h"
#include "kernels/prefetch.h"
#include "kernels/quantize/loops.h"
#include "laconic/view.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace laconic::HWY_NAMESPACE {
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
  if constexpr (hn::MaxLanes(d) == kPackLanes) {
    // A row is a cache line. Prefetching one kilobyte ahead hides the latency of memory. Shorter vectors pass each line
    // several times, and repeated prefetches cost more than they save.
    prefetch_ahead(row, 1024);
  }
  hn::StoreU(hn::Add(hn::LoadU(d, row), addend), d, row);
}

/// One step, the value of a level, for all groups.
class OneStep {
 public:
  HWY_INLINE explicit OneStep(float step) : step_(hn::Set(DequantizeFloats(), step)) {}
  HWY_INLINE void take(std::size_t /*begin*/) {}
  HWY_INLINE hn::Vec<DequantizeFloats> of_row(std::size_t /*row*/) const { return step_; }

 private:
  hn::Vec<DequantizeFloats> step_;
};

/// A step for each scope that begins in a group. Scopes are whole rows.
class ScopeSteps {
 public:
  HWY_INLINE ScopeSteps(const ScopeNorms& norms, int bits)
      : norms_(norms), bits_(bits), shift_(HWY_MIN(norms.shift, 9) - 4) {}
  HWY_INLINE void take(std::size_t begin) {
    const std::size_t scope = kPackLanes << shift_;
    for (std::size_t i = 0; i * scope < kPackGroup; ++i) {
      steps_[i] = quantize_step(norms_.of(begin + i * scope), bits_);
    }
  }
  HWY_INLINE hn::Vec<DequantizeFloats> of_row(std::size_t row) const {
    return hn::Set(DequantizeFloats(), steps_[row >> shift_]);
  }

 private:
  ScopeNorms norms_;
  int bits_;
  int shift_;  // log2 of a scope's rows
  float steps_[kScopesOfGroup];
};

/// The values of fields.
class FieldValues {
  using Float = hn::Vec<DequantizeFloats>;
  using Word = hn::Vec<DequantizeWords>;

 public:
  HWY_INLINE explicit FieldValues(int bits) : level_mask_(hn::Set(DequantizeWords(), (1U << (bits - 1)) - 1)) {}

  /// The field is in the lowest bits of `field` and its sign in the top bit of `sign`; other bits do not matter.
  HWY_INLINE Float of(Word field, Word sign, Float step) const {
    const auto level = hn::BitCast(DequantizeSigned(), hn::And(field, level_mask_));
    const Float magnitude = hn::Mul(hn::ConvertTo(DequantizeFloats(), level), step);
    const Word flip = hn::And(sign, hn::Set(DequantizeWords(), 0x8000'0000U));
    return hn::BitCast(DequantizeFloats(), hn::Xor(hn::BitCast(DequantizeWords(), magnitude), flip));
  }

 private:
  Word level_mask_;
};

/// Adds one vector of lanes of a group, for any width.
template <class Steps>
HWY_INLINE void add_lanes(const std::byte* packed, const Steps& steps, int bits, float* values) {
  const FieldValues value(bits);
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
    add_row(value.of(field, hn::ShiftLeftSame(field, 32 - bits), steps.of_row(row)), values + row * kPackLanes);
  }
}

/// The same for the most common widths, unrolled. A loop over the rows was up to a fifth slower on machines with slow
/// memory, and looking up the values of 4 bits in a vector was no faster than computing them.
/// kBits divides 32.
template <int kBits, class Steps>
class UnrolledAdder {
  using Float = hn::Vec<DequantizeFloats>;
  using Word = hn::Vec<DequantizeWords>;

 public:
  HWY_INLINE explicit UnrolledAdder(const Steps& steps) : steps_(steps), value_(kBits) {}

  HWY_INLINE void add(const std::byte* packed, float* values) const {
    add_words(packed, values, std::make_integer_sequence<int, kBits>());
  }

 private:
  static constexpr int kFields = 32 / kBits;

  template <int... kWord>
  HWY_INLINE void add_words(const std::byte* packed, float* values, std::integer_sequence<int, kWord...>) const {
    (add_fields<kWord * kFields>(load_lane_words(packed + kWord * kWordRow), values,
                                 std::make_integer_sequence<int, kFields>()),
     ...);
  }

  template <int kFirstRow, int... kField>
  HWY_INLINE void add_fields(Word word, float* values, std::integer_sequence<int, kField...>) const {
    (add_row(value_at<kField * kBits>(word, steps_.of_row(kFirstRow + kField)),
             values + (kFirstRow + kField) * kPackLanes),
     ...);
  }

  template <int kShift>
  HWY_INLINE Float value_at(Word word, Float step) const {
    Word field = word;
    Word sign = word;
    if constexpr (kShift > 0) field = hn::ShiftRight<kShift>(word);
    if constexpr (kShift + kBits < 32) sign = hn::ShiftLeft<32 - kShift - kBits>(word);
    return value_.of(field, sign, step);
  }

  const Steps& steps_;
  FieldValues value_;
};

template <int kBits, class Steps>
HWY_NOINLINE void dequantize_unrolled(const std::byte* packed, Steps steps, View<float> values) {
  const UnrolledAdder<kBits, Steps> adder(steps);
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup, packed += packed_bytes(kPackGroup, kBits)) {
    steps.take(begin);
    for (std::size_t lane = 0; lane < kPackLanes; lane += hn::Lanes(DequantizeFloats())) {
      adder.add(packed + lane * sizeof(std::uint32_t), values.data() + begin + lane);
    }
  }
}

template <class Steps>
HWY_INLINE void dequantize_all(const std::byte* packed, Steps steps, int bits, View<float> values) {
#if HWY_TARGET != HWY_EMU128  // emulated lanes gain nothing, and compilers take long over them
  if (bits == 4) return dequantize_unrolled<4>(packed, steps, values);
  if (bits == 8) return dequantize_unrolled<8>(packed, steps, values);
#endif
  for (std::size_t begin = 0; begin < values.size(); begin += kPackGroup, packed += packed_bytes(kPackGroup, bits)) {
    steps.take(begin);
    for (std::size_t lane = 0; lane < kPackLanes; lane += hn::Lanes(DequantizeFloats())) {
      add_lanes(packed + lane * sizeof(std::uint32_t), steps, bits, values.data() + begin + lane);
    }
  }
}

/// Whole groups.
void dequantize_groups(const std::byte* packed, float step, int bits, View<float> values) {
  dequantize_all(packed, OneStep(step), bits, values);
}

void dequantize_scope_groups(const std::byte* packed, const ScopeNorms& norms, int bits, View<float> values) {
  dequantize_all(packed, ScopeSteps(norms, bits), bits, values);
}

}  // namespace
}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
