#include <algorithm>
#include <array>
#include <bit>

#include "kernels/clones.h"
#include "kernels/sign/loops.h"
#include "kernels/sign/sign.h"

namespace laconic::portable {
namespace {

/// 1 << i, from memory: not every processor can shift the lanes of a vector by different counts.
constexpr auto kBits = [] {
  std::array<std::uint32_t, kSignsPerWord> bits{};
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = 1U << i;
  return bits;
}();

LACONIC_INLINE bool pack_words(const float* values, std::size_t count, std::uint32_t* words) {
  std::int32_t most = 0;
  for (std::size_t word = 0; word < count; ++word, values += kSignsPerWord) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < kSignsPerWord; ++i) {
      bits |= kBits[i] & (0U - static_cast<std::uint32_t>(values[i] < 0.0F));  // a mask, since `? :` becomes a branch
    }
    for (std::size_t i = 0; i < kSignsPerWord; ++i) {
      most = std::max(most, std::bit_cast<std::int32_t>(values[i]) & 0x7FFF'FFFF);
    }
    words[word] = bits;
  }
  return most >= 0x7F80'0000;
}

LACONIC_INLINE void unpack_words(const std::uint32_t* words, std::size_t count, float magnitude, float* values) {
  for (std::size_t word = 0; word < count; ++word, values += kSignsPerWord) {
    const std::uint32_t bits = words[word];
    for (std::size_t i = 0; i < kSignsPerWord; ++i) values[i] = (bits & kBits[i]) != 0 ? -magnitude : magnitude;
  }
}

}  // namespace

// What follows the last whole word is short: the reference's loop serves every level.

bool pack_signs(SimdLevel level, View<const float> values, std::uint32_t* words) {
  const std::size_t whole = values.size() / kSignsPerWord;
  const bool nonfinite = Clones<pack_words>::run(level, values.data(), whole, words);
  const std::size_t done = whole * kSignsPerWord;
  return reference::pack_signs(values.sub(done, values.size() - done), words + whole) || nonfinite;
}

void unpack_signs(SimdLevel level, const std::uint32_t* words, float magnitude, View<float> values) {
  const std::size_t whole = values.size() / kSignsPerWord;
  Clones<unpack_words>::run(level, words, whole, magnitude, values.data());
  const std::size_t done = whole * kSignsPerWord;
  reference::unpack_signs(words + whole, magnitude, values.sub(done, values.size() - done));
}

}  // namespace laconic::portable
