#include "base/cuda/launch.h"
#include "base/cuda/list.h"
#include "kernels/block/twins.h"

// Twins of kernels/block: a thread finds the block of each of its entries in the list of where blocks begin.

namespace laconic::cuda {
namespace {

struct ListedBlock {
  std::uint64_t begin;  ///< in the concatenation
  std::uint64_t offset;
  std::uint64_t size;
  std::uint64_t start;
};

/// Where entry `position` of the concatenation lies in the flat view. `count` > 0, and the position is in some block.
template <class List>
__device__ std::uint64_t flat_index(const List& list, unsigned count, std::uint64_t position) {
  unsigned low = 0;  // the last block that begins at or before the position lies in [low, high)
  unsigned high = count;
  while (high - low > 1) {
    const unsigned middle = low + (high - low) / 2;
    if (list[middle].begin <= position) {
      low = middle;
    } else {
      high = middle;
    }
  }
  std::uint64_t in_tensor = list[low].start + (position - list[low].begin);
  if (in_tensor >= list[low].size) in_tensor -= list[low].size;
  return list[low].offset + in_tensor;
}

template <class List>
__global__ void gather_blocks_kernel(const float* flat, const __grid_constant__ List list, unsigned count,
                                     std::uint64_t begin, float* out, std::uint64_t n) {
  load_then_store(
      n, [&](std::uint64_t i) { return flat[flat_index(list, count, begin + i)]; },
      [=](std::uint64_t i, float value) { out[i] = value; });
}

template <class List>
__global__ void scatter_blocks_kernel(const float* values, const __grid_constant__ List list, unsigned count,
                                      std::uint64_t begin, float* flat, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return values[i]; },
      [&](std::uint64_t i, float value) { flat[flat_index(list, count, begin + i)] = value; });
}

template <class Give>
void with_blocks(Place& place, std::span<const Block> blocks, Give give) {
  std::uint64_t begin = 0;
  const auto block_at = [&](std::size_t i) {
    const Block& block = blocks[i];
    const ListedBlock listed{begin, block.offset, block.size, block.start};
    begin += block.count;
    return listed;
  };
  with_list<ListedBlock>(place, blocks.size(), block_at, give);
}

}  // namespace

void gather_blocks(Place& place, View<const float> flat, std::span<const Block> blocks, std::uint64_t begin,
                   View<float> out) {
  if (out.empty()) return;
  with_blocks(place, blocks, [&](const auto& list) {
    const Launch launch(place, "gather_blocks");
    gather_blocks_kernel<<<blocks_for(out.size(), kEntries), kThreads, 0, launch.stream()>>>(
        flat.data(), list, static_cast<unsigned>(blocks.size()), begin, out.data(), out.size());
    launch.check();
  });
}

void scatter_blocks(Place& place, View<const float> values, std::span<const Block> blocks, std::uint64_t begin,
                    View<float> flat) {
  if (values.empty()) return;
  with_blocks(place, blocks, [&](const auto& list) {
    const Launch launch(place, "scatter_blocks");
    scatter_blocks_kernel<<<blocks_for(values.size(), kEntries), kThreads, 0, launch.stream()>>>(
        values.data(), list, static_cast<unsigned>(blocks.size()), begin, flat.data(), values.size());
    launch.check();
  });
}

}  // namespace laconic::cuda
