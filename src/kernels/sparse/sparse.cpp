#include "kernels/sparse/sparse.h"

#include <algorithm>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "base/transfer.h"
#include "base/workspace.h"
#include "kernels/convert/formats.h"
#include "kernels/cuda.h"
#include "kernels/sparse/merge.h"
#include "kernels/sparse/twins.h"

namespace laconic {
namespace {

constexpr std::size_t kCut = 64;

/// How many entries ahead cache lines are prefetched. The number of lines that a cache can wait for at once limits a loop
/// over distant lines, and it is larger in the second-level cache than in the first, so they are prefetched into that.
constexpr std::size_t kAhead = 256;

/// Calls body(i) for each of these indices, whose entries in `memory` are far apart, on several threads.
template <class Entry, class Body>
void each_distant(Place& place, View<const std::uint32_t> indices, const Entry* memory, const Body& body) {
  parallel_ranges(place.pool(), indices.size(), kCut, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      __builtin_prefetch(memory + indices[std::min(i + kAhead, range.end - 1)], 0, 2);
      body(i);
    }
  });
}

void require_entries(Place& place, ConstSparseView entries) {
  require_same_device("indices", entries.indices.device(), place.device());
  require_same_device("values", entries.values.device(), place.device());
  require_size("values", entries.values.size(), entries.indices.size());
}

/// Gives a twin memory on the device for as many answers, and reads them from there.
template <class Twin>
void read_answers(Place& place, std::span<std::uint64_t> answers, const Twin& twin) {
  const Workspace::Scope scope(place.workspace());
  const View<std::uint64_t> there = place.workspace().take<std::uint64_t>(answers.size());
  twin(there);
  copy_to_cpu<std::uint64_t>(place, there, answers.data());
}

}  // namespace

void scatter_add(Place& place, ConstSparseView entries, View<float> out) {
  require_entries(place, entries);
  require_same_device("out", out.device(), place.device());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(scatter_add, place, entries, out);
  const Touch touch(place);
  // Indices are distinct, so no two threads meet in an entry.
  each_distant(place, entries.indices, out.data(), [&](std::size_t i) {
    float& entry = out[entries.indices[i]];
    entry = entry + entries.values[i];
  });
}

void scatter(Place& place, ConstSparseView entries, GradientView out) {
  require_entries(place, entries);
  require_same_device("out", out.device(), place.device());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(scatter, place, entries, out);
  const Touch touch(place);
  if (out.is_float32()) {
    const View<float> floats = out.floats();
    return each_distant(place, entries.indices, floats.data(),
                        [&](std::size_t i) { floats[entries.indices[i]] = entries.values[i]; });
  }
  const View<std::uint16_t> words = out.words();
  const bool half = out.type() == NumberType::float16;
  each_distant(place, entries.indices, words.data(), [&](std::size_t i) {
    const float value = entries.values[i];
    words[entries.indices[i]] = half ? formats::half_of(value) : formats::bfloat_of(value);
  });
}

void gather(Place& place, View<const float> from, View<const std::uint32_t> indices, View<float> values) {
  require_same_device("from", from.device(), place.device());
  require_same_device("indices", indices.device(), place.device());
  require_same_device("values", values.device(), place.device());
  require_size("values", values.size(), indices.size());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(gather, place, from, indices, values);
  const Touch touch(place);
  each_distant(place, indices, from.data(), [&](std::size_t i) { values[i] = from[indices[i]]; });
}

void find_entries(Place& place, ConstSparseView entries, View<const std::uint32_t> indices, View<float> values) {
  require_entries(place, entries);
  require_entries(place, {indices, values});
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(find_entries, place, entries, indices, values);
  const Touch touch(place);
  parallel_ranges(place.pool(), indices.size(), kCut, [&](Range range) {
    const auto* next = std::lower_bound(entries.indices.begin(), entries.indices.end(), indices[range.begin]);
    for (std::size_t i = range.begin; i < range.end; ++i) {
      while (next != entries.indices.end() && *next < indices[i]) ++next;
      const bool found = next != entries.indices.end() && *next == indices[i];
      values[i] = found ? entries.values[static_cast<std::size_t>(next - entries.indices.begin())] : 0.0F;
    }
  });
}

void indices_in_scopes(Place& place, std::span<const Scope> scopes, View<const std::uint32_t> indices,
                       View<std::uint32_t> within) {
  require_same_device("indices", indices.device(), place.device());
  require_same_device("within", within.device(), place.device());
  require_size("within", within.size(), indices.size());
  require_size("indices", indices.size(), require_in_order(scopes, kMostSparseEntries));
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(indices_in_scopes, place, scopes, indices, within);
  const Touch touch(place);
  for (const Scope& scope : scopes) {
    const auto offset = static_cast<std::uint32_t>(scope.offset);
    for (std::uint64_t i = scope.first; i < scope.first + scope.count; ++i) within[i] = indices[i] - offset;
  }
}

void count_below(Place& place, View<const std::uint32_t> indices, std::span<const std::uint64_t> bounds,
                 std::span<std::uint64_t> counts) {
  require_same_device("indices", indices.device(), place.device());
  require_size("counts", counts.size(), bounds.size());
  if (place.device() == Device::cuda) {
    return read_answers(place, counts, [&]([[maybe_unused]] View<std::uint64_t> there) {
      LACONIC_CUDA_CALL(count_below, place, indices, bounds, there);
    });
  }
  const Touch touch(place);
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const auto* at = std::lower_bound(indices.begin(), indices.end(), bounds[i]);
    counts[i] = static_cast<std::uint64_t>(at - indices.begin());
  }
}

void read_indices(Place& place, View<const std::uint32_t> indices, std::span<const std::uint64_t> positions,
                  std::span<std::uint64_t> found) {
  require_same_device("indices", indices.device(), place.device());
  require_size("found", found.size(), positions.size());
  if (place.device() == Device::cuda) {
    return read_answers(place, found, [&]([[maybe_unused]] View<std::uint64_t> there) {
      LACONIC_CUDA_CALL(read_indices, place, indices, positions, there);
    });
  }
  const Touch touch(place);
  for (std::size_t i = 0; i < positions.size(); ++i) found[i] = indices[positions[i]];
}

std::uint64_t merge_sum(Place& place, std::span<const ConstSparseView> parts, SparseView sum) {
  require_same_device("sum", sum.indices.device(), place.device());
  require_same_device("sum", sum.values.device(), place.device());
  std::uint64_t total = 0;
  for (const auto& part : parts) {
    require_entries(place, part);
    total += part.size();
  }
  require_at_least("sum", std::min(sum.indices.size(), sum.values.size()), total);
  if (place.device() == Device::cuda) {
    if (total == 0) return 0;
    const Workspace::Scope scope(place.workspace());
    const View<std::uint64_t> count = place.workspace().take<std::uint64_t>(1);
    LACONIC_CUDA_CALL(merge_sum, place, parts, sum, count);
    return read_one<std::uint64_t>(place, count);
  }
  const Touch touch(place);
  if (place.simd() != SimdLevel::reference) return merge_tiles(place, parts, sum);
  const Workspace::Scope scope(place.workspace());
  return reference::merge_sum(parts, place.workspace().take<std::uint64_t>(parts.size()), sum);
}

}  // namespace laconic
