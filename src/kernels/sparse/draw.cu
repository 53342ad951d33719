#include <algorithm>
#include <bit>

#include "base/cuda/parts.h"
#include "base/workspace.h"
#include "kernels/sparse/twins.h"

// Twin of kernels/sparse/draw. Floyd's sampling takes one draw after another, but what it ends with can be said of all
// at once. Draw i falls on d(i); let it collide if d(i) was taken before. It was taken if an earlier draw fell on it,
// or if it is below + j for an earlier draw j that collided, since that one then took below + j. So a thread follows
// i -> d(i) - below -> ... down to a draw that says yes or no; these chains are short. The result is every d(i), and
// below + i for each draw i that collides. A table of hashes answers which draw fell on a place first. Each scope has a
// table of its own, and the bits of its entries in one bitmap for all.

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

/// The draws of a scope.
struct Draws {
  std::uint64_t below;
  std::uint64_t first_slot;
  std::uint64_t mask;
  std::uint64_t first;      ///< in the list of all scopes
  std::uint64_t first_bit;  ///< in the bitmap
  std::uint32_t count;
  std::uint32_t tensor;

  __device__ Table table(unsigned long long* slots) const { return {slots + first_slot, mask}; }
};

__global__ void draw_kernel(const __grid_constant__ Parts<Draws> scopes, RandomStream stream,
                            unsigned long long* slots, std::uint32_t* all_draws) {
  const unsigned part = scopes.of_block();
  const Draws& scope = scopes.items[part];
  const Table table = scope.table(slots);
  std::uint32_t* draws = all_draws + scope.first;
  stream.tensor = scope.tensor;
  for_each_entry(scopes.block_in(part), scope.count, [&](std::uint64_t i) {
    const auto place = static_cast<std::uint32_t>(drawn_below(stream, i, scope.below + i + 1));
    draws[i] = place;
    table.note(place, static_cast<std::uint32_t>(i));
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

__global__ void take_kernel(const __grid_constant__ Parts<Draws> scopes, const std::uint32_t* all_draws,
                            unsigned long long* slots, std::uint32_t* taken) {
  const unsigned part = scopes.of_block();
  const Draws& scope = scopes.items[part];
  const Table table = scope.table(slots);
  const std::uint32_t* draws = all_draws + scope.first;
  for_each_entry(scopes.block_in(part), scope.count, [&](std::uint64_t i) {
    const std::uint64_t place = collides(draws, table, scope.below, i) ? scope.below + i : draws[i];
    const std::uint64_t bit = scope.first_bit + place;
    atomicOr(&taken[bit / 32], 1U << bit % 32);
  });
}

/// Slots of a table: a power of two, at least half of them empty.
std::uint64_t slots_for(std::uint64_t draws) { return std::bit_ceil(std::max<std::uint64_t>(2, 2 * draws)); }

}  // namespace

void draw_indices(Place& place, const RandomStream& stream, std::span<const Scope> scopes,
                  View<std::uint32_t> indices) {
  if (indices.empty()) return;
  const std::uint64_t begin = scopes.front().offset;
  const std::uint64_t size = scopes.back().offset + scopes.back().size - begin;
  std::uint64_t slots = 0;
  for (const Scope& scope : scopes) slots += slots_for(scope.count);

  Workspace& workspace = place.workspace();
  const Workspace::Scope scratch(workspace);
  const View<unsigned long long> table = workspace.take<unsigned long long>(slots);
  const View<std::uint32_t> taken = workspace.take<std::uint32_t>((size + 31) / 32);
  const View<std::uint64_t> measures = workspace.take<std::uint64_t>((size + kBitmapUnit - 1) / kBitmapUnit + 1);
  const Launch launch(place, "draw_indices");
  check(cudaMemsetAsync(table.data(), 0xFF, table.size_bytes(), launch.stream()), "draw_indices");
  check(cudaMemsetAsync(taken.data(), 0, taken.size_bytes(), launch.stream()), "draw_indices");
  const auto give = [&](const Parts<Draws>& parts, unsigned blocks) {
    draw_kernel<<<blocks, kThreads, 0, launch.stream()>>>(parts, stream, table.data(), indices.data());
    launch.check();
    take_kernel<<<blocks, kThreads, 0, launch.stream()>>>(parts, indices.data(), table.data(), taken.data());
    launch.check();
  };
  PartBatches<Draws, decltype(give)> batches(give);
  std::uint64_t first_slot = 0;
  for (const Scope& scope : scopes) {
    const std::uint64_t own = slots_for(scope.count);
    batches.add({scope.size - scope.count, first_slot, own - 1, scope.first, scope.offset - begin,
                 static_cast<std::uint32_t>(scope.count), scope.tensor},
                blocks_for(scope.count, kEntries));
    first_slot += own;
  }
  batches.finish();
  indices_of_bitmap(place, taken, begin, size, indices, measures);
}

}  // namespace laconic::cuda
