#pragma once

#include "kernels/block/block.h"

// The twins, on a place's stream; contracts as in block.h.
namespace laconic::cuda {
void gather_blocks(Place& place, View<const float> flat, std::span<const Block> blocks, std::uint64_t begin,
                   View<float> out);
void scatter_blocks(Place& place, View<const float> values, std::span<const Block> blocks, std::uint64_t begin,
                    View<float> flat);
}  // namespace laconic::cuda
