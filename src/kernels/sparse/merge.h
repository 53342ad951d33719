#pragma once

#include <cstdint>
#include <span>

#include "kernels/sparse/sparse.h"

namespace laconic {

namespace reference {
/// `cursors` is scratch, one a part.
std::uint64_t merge_sum(std::span<const ConstSparseView> parts, View<std::uint64_t> cursors, SparseView sum);
}  // namespace reference

/// The fast way: a tile of the index space at a time is summed densely, with a bitmap of what was touched.
std::uint64_t merge_tiles(Place& place, std::span<const ConstSparseView> parts, SparseView sum);

}  // namespace laconic
