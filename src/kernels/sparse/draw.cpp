#include "kernels/sparse/draw.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "base/workspace.h"
#include "kernels/cuda.h"
#include "kernels/sparse/twins.h"

namespace laconic {
namespace {

/// Draw i falls in [0, size - count + i]; one that is taken already stands for size - count + i itself, which cannot be.
void draw_in(Place& place, const RandomStream& stream, const Scope& scope, View<std::uint32_t> indices) {
  const std::uint64_t below = scope.size - scope.count;
  parallel_ranges(place.pool(), indices.size(), 16, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      indices[i] = static_cast<std::uint32_t>(draw_below(stream, i, below + i + 1));
    }
  });
  const Workspace::Scope scratch(place.workspace());
  const View<std::uint64_t> drawn = place.workspace().take<std::uint64_t>((scope.size + 63) / 64);
  std::fill(drawn.begin(), drawn.end(), 0U);
  const auto bit_of = [](std::uint64_t index) { return std::uint64_t{1} << (index % 64); };
  for (std::uint64_t i = 0; i < indices.size(); ++i) {
    std::uint64_t index = indices[i];
    if ((drawn[index / 64] & bit_of(index)) != 0) index = below + i;
    drawn[index / 64] |= bit_of(index);
  }
  std::size_t next = 0;
  for (std::size_t word = 0; word < drawn.size(); ++word) {
    for (std::uint64_t bits = drawn[word]; bits != 0; bits &= bits - 1) {
      indices[next++] = static_cast<std::uint32_t>(scope.offset + word * 64 + std::countr_zero(bits));
    }
  }
  LACONIC_CHECK(next == indices.size());
}

}  // namespace

void draw_indices(Place& place, const RandomStream& stream, std::span<const Scope> scopes,
                  View<std::uint32_t> indices) {
  require_same_device("indices", indices.device(), place.device());
  require_size("indices", indices.size(), require_in_order(scopes, kMostSparseEntries));
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(draw_indices, place, stream, scopes, indices);
  const Touch touch(place);
  for (const Scope& scope : scopes) {
    RandomStream own = stream;
    own.tensor = scope.tensor;
    draw_in(place, own, scope, indices.sub(scope.first, scope.count));
  }
}

}  // namespace laconic
