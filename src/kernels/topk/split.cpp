#include <algorithm>

#include "base/workspace.h"
#include "kernels/topk/candidates.h"

namespace laconic::topk {
namespace {

/// A range shorter than this is not worth a thread of its own.
constexpr std::size_t kShortestRange = 16'384;

void split_part(const Part& part, std::uint32_t threshold, ConstSparseView entries, SparseView kept,
                SparseView left) {
  std::size_t equals_left = part.equal;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < part.count; ++i) {
    const bool equal = part.keys[i] == threshold && equals_left > 0;
    const bool keep = equal || part.keys[i] > threshold;
    equals_left -= equal ? 1 : 0;
    const SparseView& target = keep ? kept : left;
    const std::size_t at = keep ? taken : i - taken;
    target.indices[at] = entries.indices[i];
    target.values[at] = entries.values[i];
    taken += keep ? 1 : 0;
  }
}

}  // namespace

void split_candidates(Place& place, ConstSparseView entries, SparseView kept, SparseView left) {
  const std::size_t n = entries.size();
  Workspace& workspace = place.workspace();
  Workspace::Scope scope(workspace);
  const std::size_t count = std::clamp<std::size_t>(n / kShortestRange, 1, static_cast<std::size_t>(place.threads()));
  const std::span<Part> parts(workspace.take<Part>(count).data(), count);
  const auto keys = workspace.take<std::uint32_t>(n);
  const auto scratch = workspace.take<std::uint32_t>(n);
  const auto histograms = workspace.take<std::uint32_t>(count * kHistogram);
  place.pool().run(count, [&](std::size_t i) {
    Part& part = *std::construct_at(&parts[i]);
    part.range = part_of(n, i, count, 64);
    part.keys = keys.data() + part.range.begin;
    part.scratch = scratch.data() + part.range.begin;
    part.count = part.range.size();
    std::uint32_t highest = 0;
    for (std::size_t j = 0; j < part.count; ++j) {
      part.keys[j] = key_of(entries.values[part.range.begin + j]);
      highest = std::max(highest, part.keys[j]);
    }
    part.highest = static_cast<std::int32_t>(highest);
  });
  std::uint32_t threshold = UINT32_MAX;
  if (!kept.indices.empty()) {
    threshold = choose_threshold(place.simd(), place.pool(), parts, -1, kept.size(), histograms);
  }
  place.pool().run(count, [&](std::size_t i) {
    const Part& part = parts[i];
    const std::size_t keep = part.greater + part.equal;
    split_part(part, threshold, entries.sub(part.range.begin, part.count), kept.sub(part.offset, keep),
               left.sub(part.range.begin - part.offset, part.count - keep));
  });
}

}  // namespace laconic::topk
