#pragma once

#include <cstdint>

#include "base/philox.h"
#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// Draws indices.size() distinct indices of [first, first + size), ascending. Every such set is equally likely. Floyd's
/// sampling (Bentley, Floyd 1987): one draw of the stream per index and one bit of scratch per entry of the range.
/// indices.size() <= size and first + size <= 2^32.
void draw_indices(Place& place, const RandomStream& stream, std::uint64_t first, std::uint64_t size,
                  View<std::uint32_t> indices);

}  // namespace laconic
