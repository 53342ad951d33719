#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// The number of entries that one owner returned and the number that it received.
struct OwnerLoad {
  std::uint64_t entries = 0;  ///< entries of the aggregate's list that it owns
  std::uint64_t load = 0;     ///< entries that it received from all ranks
};

/// Moves the W + 1 borders of the index ranges so that each owner would have had the same load. An entry counts as its
/// owner's load divided by its owner's entries. If there are no entries, the borders become even. It is a pure function
/// of data that all ranks share, so all ranks compute the same borders. The indices of the aggregate's list, ascending,
/// owner after owner, may come in parts: borders are there when all have been read.
class MovingBorders {
 public:
  MovingBorders(std::span<const OwnerLoad> loads, std::uint64_t n, std::span<std::uint64_t> borders);
  /// The next indices of the list.
  void read(Place& place, View<const std::uint32_t> indices);

 private:
  std::span<std::uint64_t> positions_;  ///< of the borders that come next, in the list
  std::uint64_t before_ = 0;            ///< indices that were read
};

inline void follow_aggregate(Place& place, View<const std::uint32_t> indices, std::span<const OwnerLoad> loads,
                             std::uint64_t n, std::span<std::uint64_t> borders) {
  MovingBorders(loads, n, borders).read(place, indices);
}

}  // namespace laconic
