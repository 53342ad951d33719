#include "kernels/block/block.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "kernels/block/twins.h"
#include "kernels/cuda.h"

namespace laconic {
namespace {

constexpr std::size_t kCut = 64;

void require_blocks(std::span<const Block> blocks, std::uint64_t begin, std::uint64_t count, std::uint64_t flat_size) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    const bool fits = block.offset <= flat_size && block.size <= flat_size - block.offset;
    if (!fits || block.start >= block.size || block.count == 0 || block.count > block.size) {
      throw InvalidConfig("block " + std::to_string(i) + " keeps " + std::to_string(block.count) + " entries from " +
                          std::to_string(block.start) + " of a tensor of " + std::to_string(block.size) + " at " +
                          std::to_string(block.offset) + " in a view of " + std::to_string(flat_size) +
                          ": start must be below the tensor's size, count in 1..size, and the tensor inside the view");
    }
    total += block.count;
  }
  if (begin > total || count > total - begin) {
    throw InvalidConfig("entries " + std::to_string(begin) + ".." + std::to_string(begin + count) +
                        " of blocks asked for, they have " + std::to_string(total) +
                        ": stay within blocks_size(blocks)");
  }
}

/// Calls body(position in the concatenation, offset in the flat view, count) for each contiguous run of
/// [begin, end) of the concatenation.
template <class Body>
void for_each_stretch(std::span<const Block> blocks, std::uint64_t begin, std::uint64_t end, Body&& body) {
  std::uint64_t block_begin = 0;
  for (const Block& block : blocks) {
    const std::uint64_t block_end = block_begin + block.count;
    std::uint64_t position = std::max(begin, block_begin);
    const std::uint64_t stop = std::min(end, block_end);
    while (position < stop) {
      std::uint64_t in_tensor = block.start + (position - block_begin);
      if (in_tensor >= block.size) in_tensor -= block.size;
      const std::uint64_t count = std::min(stop - position, block.size - in_tensor);
      body(position, block.offset + in_tensor, count);
      position += count;
    }
    block_begin = block_end;
    if (block_begin >= end) return;
  }
}

}  // namespace

std::uint64_t blocks_size(std::span<const Block> blocks) {
  std::uint64_t total = 0;
  for (const Block& block : blocks) total += block.count;
  return total;
}

void gather_blocks(Place& place, View<const float> flat, std::span<const Block> blocks, std::uint64_t begin,
                   View<float> out) {
  require_same_device("flat", flat.device(), place.device());
  require_same_device("out", out.device(), place.device());
  require_blocks(blocks, begin, out.size(), flat.size());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(gather_blocks, place, flat, blocks, begin, out);
  const Touch touch(place);
  parallel_ranges(place.pool(), out.size(), kCut, [&](Range range) {
    for_each_stretch(blocks, begin + range.begin, begin + range.end,
                     [&](std::uint64_t position, std::uint64_t offset, std::uint64_t count) {
                       std::memcpy(out.data() + (position - begin), flat.data() + offset, count * sizeof(float));
                     });
  });
}

void scatter_blocks(Place& place, View<const float> values, std::span<const Block> blocks, std::uint64_t begin,
                    View<float> flat) {
  require_same_device("values", values.device(), place.device());
  require_same_device("flat", flat.device(), place.device());
  require_blocks(blocks, begin, values.size(), flat.size());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(scatter_blocks, place, values, blocks, begin, flat);
  const Touch touch(place);
  parallel_ranges(place.pool(), values.size(), kCut, [&](Range range) {
    for_each_stretch(blocks, begin + range.begin, begin + range.end,
                     [&](std::uint64_t position, std::uint64_t offset, std::uint64_t count) {
                       std::memcpy(flat.data() + offset, values.data() + (position - begin), count * sizeof(float));
                     });
  });
}

}  // namespace laconic
