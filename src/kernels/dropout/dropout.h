#pragma once

#include <cstdint>

#include "base/philox.h"
#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// A mask of dropout for rows of equal size: each entry is 0 with probability `drop`, exact to 2^-32, and otherwise
/// 1 / (1 − drop). Row r has the stream whose rank is samples[r], and its entry i has draw i, so a row depends on its
/// sample and not on the rows beside it. samples are below 2^24 and lie on the place's device, as the mask does; drop is
/// in [0, 1); mask.size() is a multiple of samples.size().
void dropout_mask(Place& place, const RandomStream& stream, View<const std::uint32_t> samples, double drop,
                  View<float> mask);

}  // namespace laconic
