#pragma once

#include <cstdint>
#include <span>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// A contiguous run of one tensor's entries that wraps around at its end (RBGS, Xu & Huang 2022).
struct Block {
  std::uint64_t offset = 0;  ///< where the tensor begins in the flat view
  std::uint64_t size = 0;    ///< entries of the tensor
  std::uint64_t start = 0;   ///< first entry kept, in the tensor
  std::uint64_t count = 0;   ///< entries kept, 1..size
};

/// The number of entries of all blocks together, which is also the length of what gather_blocks writes.
std::uint64_t blocks_size(std::span<const Block> blocks);

/// Concatenates the blocks' entries [begin, begin + out.size()) into `out`.
void gather_blocks(Place& place, View<const float> flat, std::span<const Block> blocks, std::uint64_t begin,
                   View<float> out);

/// The inverse: writes `values` to the blocks' entries [begin, begin + values.size()) and leaves the others unchanged.
void scatter_blocks(Place& place, View<const float> values, std::span<const Block> blocks, std::uint64_t begin,
                    View<float> flat);

}  // namespace laconic
