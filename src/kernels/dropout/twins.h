#pragma once

#include "kernels/dropout/dropout.h"

namespace laconic {

/// The two values of a mask, and the draws that give the first.
struct DropoutValues {
  std::uint64_t dropped;  ///< draws below it; up to 2^32
  float kept;

  explicit DropoutValues(double drop)
      : dropped(static_cast<std::uint64_t>(drop * 0x1p32)), kept(static_cast<float>(1.0 / (1.0 - drop))) {}
};

// The twin, on a place's stream; contract as in dropout.h.
namespace cuda {
void dropout_mask(Place& place, const RandomStream& stream, View<const std::uint32_t> samples, double drop,
                  View<float> mask);
}  // namespace cuda

}  // namespace laconic
