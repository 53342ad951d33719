#pragma once

// Entries of a gradient as floats, for loops on the CPU. Entries of 16 bits are converted in blocks that stay in the
// first cache, so that a kernel needs no loop for each type.

#include <algorithm>
#include <array>

#include "base/thread_pool.h"
#include "kernels/convert/formats.h"
#include "kernels/convert/loops.h"
#include "kernels/simd.h"

namespace laconic {

inline constexpr std::size_t kFloatBlock = 4096;

/// A block of at most kMost entries as floats: where they lie, or widened here until the next one is read.
template <std::size_t kMost = kFloatBlock>
class FloatBlock {
 public:
  View<const float> read(SimdLevel level, ConstGradientView values) {
    if (values.is_float32()) return values.floats();
    LACONIC_DISPATCH(level, from_16bit, values.words().data(), format_of(values.type()), widened_.data(),
                     values.size());
    return {widened_.data(), values.size()};
  }

 private:
  std::array<float, kMost> widened_;
};

/// One entry of any type, for loops that read few of them.
inline float number_at(ConstGradientView values, std::size_t i) {
  if (values.is_float32()) return values.floats()[i];
  const std::uint16_t word = values.words()[i];
  return values.type() == NumberType::float16 ? formats::float_of_half(word) : formats::float_of_bfloat(word);
}

/// Calls body(floats, index of the first) for the entries of a range, in order. Each block but the last has kMost
/// entries; a range of float32 is one block, where it lies.
template <std::size_t kMost = kFloatBlock, class Body>
void for_each_float_block(SimdLevel level, ConstGradientView values, Range range, Body&& body) {
  if (values.is_float32()) return body(values.floats().sub(range.begin, range.size()), range.begin);
  FloatBlock<kMost> block;
  for (std::size_t begin = range.begin; begin < range.end; begin += kMost) {
    body(block.read(level, values.sub(begin, std::min(kMost, range.end - begin))), begin);
  }
}

/// The same for entries that `body` writes. They are rounded to the gradient's type.
template <std::size_t kMost = kFloatBlock, class Body>
void for_each_written_block(SimdLevel level, GradientView values, Range range, Body&& body) {
  if (values.is_float32()) return body(values.floats().sub(range.begin, range.size()), range.begin);
  std::array<float, kMost> block;
  for (std::size_t begin = range.begin; begin < range.end; begin += kMost) {
    const std::size_t count = std::min(kMost, range.end - begin);
    body(View<float>(block.data(), count), begin);
    LACONIC_DISPATCH(level, to_16bit, block.data(), format_of(values.type()), values.words().data() + begin, count);
  }
}

}  // namespace laconic
