#include "codecs/sparse_layout.h"

namespace laconic::sparse {

static_assert(kGapGroup == kPackGroup, "runs of groups rely on it");

std::uint64_t gap_bits(std::uint64_t count, View<const std::uint8_t> widths) {
  std::uint64_t bits = 0;
  for_each_run(count, widths, [&](std::uint64_t, std::uint64_t entries, int width, std::uint64_t) {
    bits += entries * static_cast<std::uint64_t>(width);
  });
  return bits;
}

}  // namespace laconic::sparse
