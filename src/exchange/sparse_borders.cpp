#include "exchange/sparse_borders.h"

#include <algorithm>

#include "exchange/exchange.h"
#include "kernels/sparse/sparse.h"

namespace laconic {

MovingBorders::MovingBorders(std::span<const OwnerLoad> loads, std::uint64_t n, std::span<std::uint64_t> borders) {
  const std::uint64_t ranks = borders.size() - 1;
  double total = 0.0;
  for (const OwnerLoad& owner : loads) {
    if (owner.entries > 0) total += static_cast<double>(owner.load);
  }
  if (total <= 0.0) {
    set_even_borders(n, borders);
    return;
  }
  borders[0] = 0;
  double before = 0.0;  // load of the owners passed so far
  std::uint64_t first = 0;
  std::uint64_t next = 1;
  for (const OwnerLoad& owner : loads) {
    if (owner.entries == 0) continue;
    const double each = static_cast<double>(owner.load) / static_cast<double>(owner.entries);
    // Borders whose share of the load ends inside this owner's entries.
    for (; next < ranks; ++next) {
      const double wanted = total * static_cast<double>(next) / static_cast<double>(ranks);
      const double position = each > 0.0 ? (wanted - before) / each : 0.0;
      if (position >= static_cast<double>(owner.entries)) break;
      borders[next] = first + static_cast<std::uint64_t>(std::max(position, 0.0));
    }
    before += static_cast<double>(owner.load);
    first += owner.entries;
  }
  positions_ = borders.subspan(1, next - 1);
  for (; next <= ranks; ++next) borders[next] = n;
}

void MovingBorders::read(Place& place, View<const std::uint32_t> indices) {
  std::size_t here = 0;
  for (; here < positions_.size() && positions_[here] < before_ + indices.size(); ++here) positions_[here] -= before_;
  read_indices(place, indices, positions_.first(here), positions_.first(here));
  positions_ = positions_.subspan(here);
  before_ += indices.size();
}

}  // namespace laconic
