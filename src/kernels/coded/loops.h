#pragma once

#include "kernels/coded/tally.h"

// The loops of code_values over entries of one scope. Lists are short beside the view from which they were selected, so
// the compiler's vectors do: there is only portable.cpp.

namespace laconic::coded {

/// Entries whose magnitude is above the mean.
struct Above {
  std::uint64_t count;
  std::uint64_t sum;
};

}  // namespace laconic::coded

namespace laconic::portable {
std::uint32_t largest_key(SimdLevel level, View<const float> values);
/// The sum of Tally::fixed. The tally's scope is finite, here and below.
std::uint64_t sum_magnitudes(SimdLevel level, View<const float> values, const coded::Tally& tally);
coded::Above sum_above(SimdLevel level, View<const float> values, const coded::Tally& tally);
/// Replaces values by what a receiver will see, and writes what that takes away to `errors`.
void code_run(SimdLevel level, ValueFormat format, const coded::Tally& tally, View<float> values, View<float> errors);
}  // namespace laconic::portable
