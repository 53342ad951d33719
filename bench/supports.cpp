#include "bench/supports.h"

#include <cmath>

#include "base/philox.h"

namespace laconic::bench {
namespace {

std::uint64_t shared_count(std::uint64_t count, double overlap) {
  return static_cast<std::uint64_t>(std::llround(overlap * static_cast<double>(count)));
}

std::uint64_t union_count(std::uint64_t count, double overlap, int ranks) {
  const std::uint64_t shared = shared_count(count, overlap);
  return shared + static_cast<std::uint64_t>(ranks) * (count - shared);
}

/// Draws from [0, bound), good enough for spreading things: a bias of bound/2^32.
std::uint64_t below(const RandomStream& stream, std::uint64_t i, std::uint64_t bound) {
  return std::uint64_t{draw32(stream, i)} * bound >> 32;
}

}  // namespace

std::uint64_t fitting_count(std::uint64_t n, std::uint64_t wanted, double overlap, int ranks) {
  while (wanted > 1 && union_count(wanted, overlap, ranks) > n) wanted /= 2;
  return wanted;
}

Supports draw_supports(std::uint64_t n, std::uint64_t count, double overlap, int ranks) {
  const RandomStream place{.seed = 11, .purpose = Purpose::test};
  const RandomStream deal{.seed = 12, .purpose = Purpose::test};
  Supports supports;
  supports.of_rank.resize(static_cast<std::size_t>(ranks));
  for (auto& support : supports.of_rank) support.reserve(count);

  // One pass over the coordinates: each is taken with the probability that leaves the right number in the end, and is
  // dealt to all ranks or to one in proportion to what they still need.
  std::uint64_t needed = union_count(count, overlap, ranks);
  std::uint64_t shared = shared_count(count, overlap);
  std::vector<std::uint64_t> own(supports.of_rank.size(), count - shared);
  for (std::uint64_t i = 0; i < n && needed > 0; ++i) {
    if (below(place, i, n - i) >= needed) continue;
    std::uint64_t ticket = below(deal, i, needed--);
    const auto index = static_cast<std::uint32_t>(i);
    if (ticket < shared) {
      --shared;
      for (auto& support : supports.of_rank) support.push_back(index);
      continue;
    }
    ticket -= shared;
    std::size_t rank = 0;
    while (ticket >= own[rank]) ticket -= own[rank++];
    --own[rank];
    supports.of_rank[rank].push_back(index);
  }
  return supports;
}

}  // namespace laconic::bench
