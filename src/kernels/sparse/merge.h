#pragma once

#include <cstdint>
#include <span>

#include "kernels/sparse/sparse.h"

namespace laconic {

namespace reference {
/// `cursors` is scratch, one per part.
std::uint64_t merge_sum(std::span<const ConstSparseView> parts, View<std::uint64_t> cursors, SparseView sum);
}  // namespace reference

/// The fast implementation. It sums one tile of the index space at a time into a dense array, with a bitmap of the
/// entries that were touched.
std::uint64_t merge_tiles(Place& place, std::span<const ConstSparseView> parts, SparseView sum);

}  // namespace laconic
