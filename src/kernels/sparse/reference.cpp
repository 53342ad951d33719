#include "kernels/sparse/merge.h"

namespace laconic::reference {

std::uint64_t merge_sum(std::span<const ConstSparseView> parts, View<std::uint64_t> cursors, SparseView sum) {
  for (std::uint64_t& cursor : cursors) cursor = 0;
  for (std::uint64_t count = 0;; ++count) {
    std::uint64_t least = kMostSparseEntries + 1;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      if (cursors[part] == parts[part].size()) continue;
      const std::uint32_t index = parts[part].indices[cursors[part]];
      if (index < least) least = index;
    }
    if (least > kMostSparseEntries) return count;
    float total = -0.0F;  // -0 + x is x, bit for bit
    for (std::size_t part = 0; part < parts.size(); ++part) {
      if (cursors[part] == parts[part].size() || parts[part].indices[cursors[part]] != least) continue;
      total = total + parts[part].values[cursors[part]++];
    }
    sum.indices[count] = static_cast<std::uint32_t>(least);
    sum.values[count] = total;
  }
}

}  // namespace laconic::reference
