#include "kernels/coded/coded.h"

#include <atomic>
#include <string>

#include "base/check.h"
#include "base/touch.h"
#include "base/workspace.h"
#include "kernels/coded/loops.h"
#include "kernels/coded/tally.h"
#include "kernels/coded/twins.h"
#include "kernels/cuda.h"
#include "kernels/elementwise/flagged.h"

namespace laconic {
namespace {

using coded::Extent;
using coded::key_of;
using coded::Tally;

constexpr std::size_t kCut = 16;

void require_coded(Place& place, ValueFormat format, const ScopeCuts& cuts, const ConstSparseView& entries) {
  if (!is_coded(format)) {
    throw InvalidConfig("format must be sign or two here, got " + std::string(format_name(format)) +
                        ": other formats have a value for each entry");
  }
  require_size("values", entries.values.size(), entries.indices.size());
  require_same_device("indices", entries.indices.device(), place.device());
  require_same_device("values", entries.values.device(), place.device());
  if (place.device() == Device::cpu || cuts.starts.empty()) return;
  require_size("device_starts", cuts.device_starts.size(), cuts.starts.size());
  require_same_device("device_starts", cuts.device_starts.device(), place.device());
}

/// Calls body(number of the scope, first entry, end) for the runs of entries in one scope, on several threads. A scope
/// may have several runs.
template <class Body>
void each_run(Place& place, const ScopeCuts& cuts, View<const std::uint32_t> indices, const Body& body) {
  parallel_ranges(place.pool(), indices.size(), kCut, [&](Range range) {
    for (std::size_t begin = range.begin, end = begin; begin < range.end; begin = end) {
      const std::uint64_t scope = cuts.number_of(indices[begin]);
      const std::uint64_t behind = cuts.end_of(scope);
      end = behind > indices[range.end - 1] ? range.end : begin + 1;
      while (end < range.end && indices[end] < behind) ++end;
      body(scope, begin, end);
    }
  });
}

void add_to(unsigned long long& sum, unsigned long long value) {
  std::atomic_ref(sum).fetch_add(value, std::memory_order_relaxed);
}

void raise(std::uint32_t& highest, std::uint32_t value) {
  const std::atomic_ref shared(highest);
  std::uint32_t seen = shared.load(std::memory_order_relaxed);
  while (seen < value && !shared.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {}
}

void lower(std::uint32_t& least, std::uint32_t value) {
  const std::atomic_ref shared(least);
  std::uint32_t seen = shared.load(std::memory_order_relaxed);
  while (seen > value && !shared.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {}
}

void count_entries(Place& place, const ScopeCuts& cuts, ScopeSpan span, ConstSparseView entries, View<Tally> tallies) {
  each_run(place, cuts, entries.indices, [&](std::uint64_t scope, std::size_t begin, std::size_t end) {
    const auto values = entries.values.sub(begin, end - begin);
    raise(tallies[scope - span.first].highest, portable::largest_key(place.simd(), values));
    add_to(tallies[scope - span.first].count, end - begin);
  });
}

void sum_entries(Place& place, const ScopeCuts& cuts, ScopeSpan span, ConstSparseView entries, View<Tally> tallies) {
  each_run(place, cuts, entries.indices, [&](std::uint64_t scope, std::size_t begin, std::size_t end) {
    Tally& tally = tallies[scope - span.first];
    if (!tally.finite()) return;
    add_to(tally.sum, portable::sum_magnitudes(place.simd(), entries.values.sub(begin, end - begin), tally));
  });
}

void sum_above(Place& place, const ScopeCuts& cuts, ScopeSpan span, ConstSparseView entries, View<Tally> tallies) {
  each_run(place, cuts, entries.indices, [&](std::uint64_t scope, std::size_t begin, std::size_t end) {
    Tally& tally = tallies[scope - span.first];
    if (!tally.finite()) return;
    const coded::Above above = portable::sum_above(place.simd(), entries.values.sub(begin, end - begin), tally);
    add_to(tally.above, above.count);
    add_to(tally.above_sum, above.sum);
  });
}

/// Keys of the least and the largest magnitude of each scope.
void measure_extents(Place& place, const ScopeCuts& cuts, ScopeSpan span, ConstSparseView entries,
                     View<Extent> extents) {
  std::fill(extents.begin(), extents.end(), coded::kNoExtent);
  each_run(place, cuts, entries.indices, [&](std::uint64_t scope, std::size_t begin, std::size_t end) {
    Extent own = coded::kNoExtent;
    for (std::size_t i = begin; i < end; ++i) {
      own.least = std::min(own.least, key_of(entries.values[i]));
      own.most = std::max(own.most, key_of(entries.values[i]));
    }
    lower(extents[scope - span.first].least, own.least);
    raise(extents[scope - span.first].most, own.most);
  });
}

/// Returns false if a scope had a NaN or an Inf.
bool write_magnitudes(ValueFormat format, View<const Extent> extents, View<float> magnitudes) {
  bool finite = true;
  const std::uint64_t each = magnitudes_of(format);
  for (std::size_t scope = 0; scope < extents.size(); ++scope) {
    const Extent& extent = extents[scope];
    finite = finite && extent.finite();
    const bool known = extent.finite() && extent.least <= extent.most;
    magnitudes[scope * each] = known ? std::bit_cast<float>(extent.least) : 0.0F;
    if (each == 2) magnitudes[scope * each + 1] = known ? std::bit_cast<float>(extent.most) : 0.0F;
  }
  return finite;
}

[[noreturn]] void refuse_value(ValueFormat format, const ConstSparseView& entries, std::size_t position) {
  throw InvalidConfig("entry " + std::to_string(position) + " has the value " +
                      std::to_string(entries.values[position]) + ", but in the format " + format_name(format) +
                      " the values of a scope share " + (format == ValueFormat::sign ? "one magnitude" : "two magnitudes") +
                      ": pass values that code_values has made");
}

}  // namespace

void code_values(Place& place, ValueFormat format, const ScopeCuts& cuts, ScopeSpan span, SparseView entries,
                 View<float> errors, StatusView status) {
  require_coded(place, format, cuts, entries);
  require_size("errors", errors.size(), entries.size());
  require_same_device("errors", errors.device(), place.device());
  require_status(place, status);
  if (entries.size() == 0) return;
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(code_values, place, format, cuts, span, entries, errors, status);
  }
  const Touch touch(place);
  if (place.simd() == SimdLevel::reference) {
    if (!reference::code_values(format, cuts, entries, errors)) status[0].nonfinite = 1;
    return;
  }
  const Workspace::Scope scope(place.workspace());
  const View<Tally> tallies = place.workspace().take<Tally>(span.count);
  std::fill(tallies.begin(), tallies.end(), Tally{});
  count_entries(place, cuts, span, entries, tallies);
  sum_entries(place, cuts, span, entries, tallies);
  for (Tally& tally : tallies) tally.set_mean();
  if (format == ValueFormat::two) {
    sum_above(place, cuts, span, entries, tallies);
    for (Tally& tally : tallies) tally.set_two();
  }
  for (const Tally& tally : tallies) status[0].nonfinite |= tally.finite() ? 0U : 1U;
  each_run(place, cuts, entries.indices, [&](std::uint64_t number, std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    portable::code_run(place.simd(), format, tallies[number - span.first], entries.values.sub(begin, count),
                       errors.sub(begin, count));
  });
}

void coded_fields(Place& place, ValueFormat format, const ScopeCuts& cuts, ScopeSpan span, ConstSparseView entries,
                  View<float> magnitudes, View<std::uint32_t> fields, StatusView status) {
  require_coded(place, format, cuts, entries);
  require_size("fields", fields.size(), entries.size());
  require_size("magnitudes", magnitudes.size(), span.count * magnitudes_of(format));
  require_same_device("fields", fields.device(), place.device());
  require_same_device("magnitudes", magnitudes.device(), place.device());
  require_status(place, status);
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(coded_fields, place, format, cuts, span, entries, magnitudes, fields, status);
  }
  const Touch touch(place);
  const Workspace::Scope scope(place.workspace());
  const View<Extent> extents = place.workspace().take<Extent>(span.count);
  measure_extents(place, cuts, span, entries, extents);
  if (!write_magnitudes(format, extents, magnitudes)) status[0].nonfinite = 1;
  std::atomic<std::size_t> wrong{entries.size()};
  each_run(place, cuts, entries.indices, [&](std::uint64_t number, std::size_t begin, std::size_t end) {
    const Extent extent = extents[number - span.first];
    for (std::size_t i = begin; i < end; ++i) {
      fields[i] = extent.field(entries.values[i]);
      if (!extent.finite() || extent.describes(format, key_of(entries.values[i]))) continue;
      for (std::size_t seen = wrong; i < seen && !wrong.compare_exchange_weak(seen, i);) {}
    }
  });
  if (wrong < entries.size()) refuse_value(format, entries, wrong);
}

void coded_values(Place& place, ValueFormat format, const ScopeCuts& cuts, ScopeSpan span,
                  View<const std::uint32_t> indices, View<const std::uint32_t> fields, View<const float> magnitudes,
                  View<float> values) {
  require_coded(place, format, cuts, {indices, values});
  require_size("fields", fields.size(), indices.size());
  require_size("magnitudes", magnitudes.size(), span.count * magnitudes_of(format));
  require_same_device("fields", fields.device(), place.device());
  require_same_device("magnitudes", magnitudes.device(), place.device());
  if (indices.empty()) return;
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(coded_values, place, format, cuts, span, indices, fields, magnitudes, values);
  }
  const Touch touch(place);
  const std::uint64_t each = magnitudes_of(format);
  each_run(place, cuts, indices, [&](std::uint64_t number, std::size_t begin, std::size_t end) {
    const float* own = magnitudes.data() + (number - span.first) * each;
    for (std::size_t i = begin; i < end; ++i) values[i] = coded::value_of(format, fields[i], own);
  });
}

}  // namespace laconic
