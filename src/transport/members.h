#pragma once

#include <vector>

#include "laconic/communicator.h"

namespace laconic {

/// The ranks that pass the same colour, ascending: those of one subgroup of a split. Collective.
inline std::vector<int> members_of_color(Communicator& communicator, int color) {
  std::vector<int> colors(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(as_bytes(View<const int>(&color, 1)), as_writable_bytes(View<int>(colors))).wait();
  std::vector<int> members;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (colors[static_cast<std::size_t>(rank)] == color) members.push_back(rank);
  }
  return members;
}

}  // namespace laconic
