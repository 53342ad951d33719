#pragma once

#include <cstdint>

#include "base/each.h"
#include "laconic/gradient_view.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/view.h"

namespace laconic {

/// Signs are packed 32 per word, the first in the lowest bit.
inline constexpr std::uint64_t kSignsPerWord = 32;

constexpr std::uint64_t sign_words(std::uint64_t n) { return (n + kSignsPerWord - 1) / kSignsPerWord; }

/// Bit i is 1 if values[i] < 0, so both zeros count as plus; bits beyond the last value are 0. words.size() must be
/// sign_words(values.size()). Sets status.nonfinite on NaN or Inf.
void pack_signs(Place& place, ConstGradientView values, View<std::uint32_t> words, StatusView status);

/// The same for several views of one type, on a device in one launch.
struct SignsToPack {
  ConstGradientView values;
  View<std::uint32_t> words;
};
void pack_signs(Place& place, Each<SignsToPack> slices, StatusView status);

/// values[i] is -magnitude if bit i is 1, and +magnitude otherwise, rounded to the type of `values`.
void unpack_signs(Place& place, View<const std::uint32_t> words, float magnitude, GradientView values);

struct SignsToUnpack {
  View<const std::uint32_t> words;
  GradientView values;
};
void unpack_signs(Place& place, Each<SignsToUnpack> slices, float magnitude);

}  // namespace laconic
