#include "base/cuda/launch.h"
#include "base/workspace.h"
#include "kernels/sparse/twins.h"

// Twin of kernels/sparse/draw. Floyd's sampling takes one draw after another, but what it ends with can be said of all
// at once. Draw i falls on d(i); let it collide if d(i) was taken before. It was taken if an earlier draw fell on it,
// or if it is below + j for an earlier draw j that collided, since that one then took below + j. So a thread follows
// i -> d(i) - below -> ... down to a draw that says yes or no; these chains are short. The result is every d(i), and
// below + i for each draw i that collides. A table of hashes answers which draw fell on a place first.

namespace laconic::cuda {
namespace {

constexpr unsigned long long kEmpty = ~0ULL;

/// As draw_below in base/philox.h.
__device__ std::uint64_t drawn_below(const RandomStream& stream, std::uint64_t i, std::uint64_t bound) {
  const std::uint64_t refused = (0 - bound) % bound;
  for (;; i += std::uint64_t{1} << 32) {
    const PhiloxBlock block = stream.block(i);
    const std::uint64_t bits = std::uint64_t{block[1]} << 32 | block[0];
    if (bits * bound >= refused) return __umul64hi(bits, bound);
  }
}

/// The slot of `place`, or the empty one where it belongs. The table has 2^n slots, at least half of them empty.
struct Table {
  unsigned long long* slots;  ///< place << 32 | the first draw that fell on it
  std::uint64_t mask;

  static __device__ std::uint64_t hash(std::uint32_t place) { return place * 0x9E3779B97F4A7C15ULL >> 32; }

  __device__ void note(std::uint32_t place, std::uint32_t draw) const {
    const unsigned long long entry = static_cast<unsigned long long>(place) << 32 | draw;
    for (std::uint64_t at = hash(place) & mask;; at = (at + 1) & mask) {
      const unsigned long long found = atomicCAS(&slots[at], kEmpty, entry);
      if (found == kEmpty) return;
      if (found >> 32 != place) continue;
      atomicMin(&slots[at], entry);
      return;
    }
  }
  __device__ std::uint32_t first_draw(std::uint32_t place) const {
    std::uint64_t at = hash(place) & mask;
    while (slots[at] >> 32 != place) at = (at + 1) & mask;
    return static_cast<std::uint32_t>(slots[at]);
  }
};

__global__ void draw_kernel(RandomStream stream, std::uint64_t below, Table table, std::uint32_t* draws,
                            std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) {
    draws[i] = static_cast<std::uint32_t>(drawn_below(stream, i, below + i + 1));
    table.note(draws[i], static_cast<std::uint32_t>(i));
  });
}

__device__ bool collides(const std::uint32_t* draws, const Table& table, std::uint64_t below, std::uint64_t i) {
  for (;;) {
    const std::uint32_t place = draws[i];
    if (table.first_draw(place) != i) return true;
    if (place < below || place - below >= i) return false;
    i = place - below;
  }
}

__global__ void take_kernel(const std::uint32_t* draws, Table table, std::uint64_t below, std::uint32_t* taken,
                            std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) {
    const std::uint64_t place = collides(draws, table, below, i) ? below + i : draws[i];
    atomicOr(&taken[place / 32], 1U << place % 32);
  });
}

}  // namespace

void draw_indices(Place& place, const RandomStream& stream, std::uint64_t first, std::uint64_t size,
                  View<std::uint32_t> indices) {
  if (indices.empty()) return;
  Workspace& workspace = place.workspace();
  const Workspace::Scope scope(workspace);
  std::uint64_t slots = 2;
  while (slots < 2 * indices.size()) slots *= 2;
  const View<unsigned long long> table_memory = workspace.take<unsigned long long>(slots);
  const View<std::uint32_t> taken = workspace.take<std::uint32_t>((size + 31) / 32);
  const std::uint64_t units = (size + kBitmapUnit - 1) / kBitmapUnit;
  const View<std::uint64_t> measures = workspace.take<std::uint64_t>(units + 1);
  const Launch launch(place, "draw_indices");
  check(cudaMemsetAsync(table_memory.data(), 0xFF, table_memory.size_bytes(), launch.stream()), "draw_indices");
  check(cudaMemsetAsync(taken.data(), 0, taken.size_bytes(), launch.stream()), "draw_indices");
  const Table table{table_memory.data(), slots - 1};
  const std::uint64_t below = size - indices.size();
  launch_over(place, "draw_indices", indices.size(), draw_kernel, stream, below, table, indices.data(), indices.size());
  launch_over(place, "draw_indices", indices.size(), take_kernel, indices.data(), table, below, taken.data(),
              indices.size());
  indices_of_bitmap(place, taken, first, size, indices, measures);
}

}  // namespace laconic::cuda
