#include <algorithm>

#include "base/workspace.h"
#include "kernels/topk/candidates.h"

namespace laconic::topk {
namespace {

void split_section(const Section& section, std::uint32_t threshold, ConstSparseView entries, SparseView kept,
                SparseView left) {
  std::size_t equals_left = section.equal;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < section.count; ++i) {
    const bool equal = section.keys[i] == threshold && equals_left > 0;
    const bool keep = equal || section.keys[i] > threshold;
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
  const std::span<Section> sections(workspace.take<Section>(count).data(), count);
  const auto keys = workspace.take<std::uint32_t>(n);
  const auto scratch = workspace.take<std::uint32_t>(n);
  const auto histograms = workspace.take<std::uint32_t>(count * kHistogram);
  place.pool().run(count, [&](std::size_t i) {
    Section& section = *std::construct_at(&sections[i]);
    section.range = part_of(n, i, count, 64);
    section.keys = keys.data() + section.range.begin;
    section.scratch = scratch.data() + section.range.begin;
    section.count = section.range.size();
    std::uint32_t highest = 0;
    for (std::size_t j = 0; j < section.count; ++j) {
      section.keys[j] = key_of(entries.values[section.range.begin + j]);
      highest = std::max(highest, section.keys[j]);
    }
    section.highest = static_cast<std::int32_t>(highest);
  });
  std::uint32_t threshold = UINT32_MAX;
  if (!kept.indices.empty()) {
    threshold = choose_threshold(place.simd(), place.pool(), sections, -1, kept.size(), histograms);
  }
  place.pool().run(count, [&](std::size_t i) {
    const Section& section = sections[i];
    const std::size_t keep = section.greater + section.equal;
    split_section(section, threshold, entries.sub(section.range.begin, section.count), kept.sub(section.offset, keep),
               left.sub(section.range.begin - section.offset, section.count - keep));
  });
}

}  // namespace laconic::topk
