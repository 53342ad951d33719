#include "codecs/sparse_layout.h"

#include "codecs/body.h"
#include "kernels/sparse/indices.h"

namespace laconic::sparse {

static_assert(kGapGroup == kPackGroup, "runs of groups rely on it");

std::uint64_t gap_groups(std::uint64_t count) { return (count + kGapGroup - 1) / kGapGroup; }

std::uint64_t width_bytes(std::uint64_t count) { return padded(gap_groups(count)); }

std::uint64_t raw_bytes(std::uint64_t count) { return count * sizeof(std::uint32_t); }

std::uint64_t bitmap_bytes(std::uint64_t range_size) { return padded((range_size + 7) / 8); }

std::uint64_t gap_bytes(std::uint64_t count, View<const std::uint8_t> widths) {
  std::uint64_t bytes = width_bytes(count);
  for_each_run(count, widths, [&](std::uint64_t, std::uint64_t entries, int width, std::uint64_t) {
    bytes += packed_bytes(entries, width);
  });
  return padded(bytes);
}

ChosenCoding choose_coding(std::uint64_t count, std::uint64_t range_size, View<const std::uint8_t> widths) {
  ChosenCoding chosen{IndexCoding::raw, raw_bytes(count)};
  const std::uint64_t gaps = gap_bytes(count, widths);
  if (gaps < chosen.bytes) chosen = {IndexCoding::gaps, gaps};
  const std::uint64_t bitmap = bitmap_bytes(range_size);
  if (bitmap < chosen.bytes) chosen = {IndexCoding::bitmap, bitmap};
  return chosen;
}

}  // namespace laconic::sparse
