#pragma once

#include <cstdint>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// Every stride-th entry of a view, from `first` on. first < stride.
struct Stripe {
  std::uint64_t first = 0;
  std::uint64_t stride = 1;

  /// Entries of the longest stripe of a view, which is the one that begins at 0.
  constexpr std::uint64_t longest_of(std::uint64_t size) const { return (size + stride - 1) / stride; }
};

/// out[j] = from[first + j·stride], and 0 for the last j if that lies behind the end. out.size() is longest_of(from).
void take_stripe(Place& place, View<const float> from, const Stripe& stripe, View<float> out);

/// The opposite: to[first + j·stride] = factor·values[j], and all other entries of `to` are 0.
void put_stripe(Place& place, View<const float> values, float factor, const Stripe& stripe, View<float> to);

}  // namespace laconic
