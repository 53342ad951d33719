#pragma once

#include <cstdint>
#include <vector>

namespace laconic::bench {

/// Which coordinates each rank sends: `shared` of them are the same on all ranks, the others are one rank's alone.
/// Drawn uniformly from [0, n) without repetition, ascending; a pure function of the arguments.
struct Supports {
  std::vector<std::vector<std::uint32_t>> of_rank;
};

/// `count` coordinates a rank, of which the part `overlap` is shared.
Supports draw_supports(std::uint64_t n, std::uint64_t count, double overlap, int ranks);

/// The largest count up to `wanted` whose union fits into n.
std::uint64_t fitting_count(std::uint64_t n, std::uint64_t wanted, double overlap, int ranks);

}  // namespace laconic::bench
