#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// Entries of an aggregate that one owner returned, and what arrived there.
struct OwnerLoad {
  std::uint64_t entries = 0;  ///< how many of the aggregate's list are its
  std::uint64_t load = 0;     ///< how many it received from all ranks
};

/// Moves the W + 1 borders of the index ranges so that each owner would have had the same load: an entry counts with
/// its owner's load over its owner's entries. `indices` is the aggregate's list, ascending, owner after owner. Without
/// entries the borders become even. A pure function of what all ranks share, so all ranks compute the same borders.
void follow_aggregate(Place& place, View<const std::uint32_t> indices, std::span<const OwnerLoad> loads,
                      std::uint64_t n, std::span<std::uint64_t> borders);

}  // namespace laconic
