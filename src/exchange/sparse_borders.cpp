#include "exchange/sparse_borders.h"

#include <algorithm>

#include "base/check.h"
#include "exchange/exchange.h"
#include "kernels/sparse/sparse.h"

namespace laconic {

void follow_aggregate(Place& place, View<const std::uint32_t> indices, std::span<const OwnerLoad> loads,
                      std::uint64_t n, std::span<std::uint64_t> borders) {
  const std::uint64_t ranks = borders.size() - 1;
  double total = 0.0;
  std::uint64_t entries = 0;
  for (const OwnerLoad& owner : loads) {
    if (owner.entries > 0) total += static_cast<double>(owner.load);
    entries += owner.entries;
  }
  LACONIC_CHECK(entries == indices.size());
  borders[0] = 0;
  borders[ranks] = n;
  if (total <= 0.0) {
    set_even_borders(n, borders);
    return;
  }
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
  // So far they are positions in the list.
  const auto inside = borders.subspan(1, next - 1);
  read_indices(place, indices, inside, inside);
  for (; next < ranks; ++next) borders[next] = n;
}

}  // namespace laconic
