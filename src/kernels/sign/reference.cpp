#include <algorithm>
#include <cmath>

#include "kernels/sign/loops.h"
#include "kernels/sign/sign.h"

namespace laconic::reference {

bool pack_signs(View<const float> values, std::uint32_t* words) {
  bool nonfinite = false;
  for (std::size_t begin = 0; begin < values.size(); begin += kSignsPerWord) {
    const std::size_t count = std::min<std::size_t>(kSignsPerWord, values.size() - begin);
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const float value = values[begin + i];
      word |= static_cast<std::uint32_t>(value < 0.0F) << i;
      nonfinite |= !std::isfinite(value);
    }
    *words++ = word;
  }
  return nonfinite;
}

void unpack_signs(const std::uint32_t* words, float magnitude, View<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool minus = (words[i / kSignsPerWord] >> i % kSignsPerWord & 1U) != 0;
    values[i] = minus ? -magnitude : magnitude;
  }
}

}  // namespace laconic::reference
