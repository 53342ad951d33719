#pragma once

#include <cstdint>
#include <span>

#include "base/philox.h"
#include "kernels/scope.h"
#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// Draws scope.count distinct indices of each scope, by the stream of its tensor, ascending. Every such set is equally
/// likely. Floyd's sampling (Bentley, Floyd 1987): one draw per index and one bit of scratch per entry; on CUDA one bit
/// per entry from the first scope to the last, and 16 to 32 bytes per draw. Scopes ascend and end at 2^32 or before;
/// scope.first says where the scope's indices go to.
void draw_indices(Place& place, const RandomStream& stream, std::span<const Scope> scopes,
                  View<std::uint32_t> indices);

}  // namespace laconic
