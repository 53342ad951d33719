#include <algorithm>
#include <array>
#include <atomic>
#include <functional>

#include "base/workspace.h"
#include "kernels/convert/blocks.h"
#include "kernels/simd.h"
#include "kernels/topk/candidates.h"
#include "kernels/topk/kth_largest.h"
#include "kernels/topk/loops.h"

// Selection in fixed scopes. A scope stays in the cache while it is selected from, so a second look at it is cheap, and
// no sample is needed: the threshold of the scope before, made a little lower, tells where candidates begin. Those above
// that threshold itself are set to zero by the scan, and few of these zeros are wrong.

namespace laconic::topk {
namespace {

/// An eighth of an octave, about a tenth of the value: how far below the last threshold candidates begin. Thresholds of
/// 64 in 4,096 normal values differ by 3 % (one standard deviation) from scope to scope.
constexpr std::int32_t kMargin = 0x0010'0000;
/// Two octaves: how much lower after a first miss.
constexpr std::int32_t kMiss = 0x0100'0000;

/// So few keys are sorted.
constexpr std::size_t kFew = 16;

/// The key at position `rank` from the largest of n keys, all of which are above `low` and none above `high`. Halves the
/// interval of keys, which costs less than a histogram if there are few.
Kth kth_between(SimdLevel level, const std::uint32_t* keys, std::size_t n, std::size_t rank, std::int32_t low,
                std::int32_t high) {
  std::size_t above_low = n;
  std::size_t above_high = 0;
  while (above_low - above_high > kFew && high - low > 1) {
    const std::int32_t middle = low + (high - low) / 2;
    const std::size_t above = portable::count_above(level, keys, n, static_cast<std::uint32_t>(middle));
    (above >= rank ? low : high) = middle;
    (above >= rank ? above_low : above_high) = above;
  }
  if (high - low == 1) return {static_cast<std::uint32_t>(high), above_high};
  std::array<std::uint32_t, kFew + kOverrun> members{};
  const GatherKeys between{keys, n, static_cast<std::uint32_t>(low + 1), static_cast<std::uint32_t>(high),
                           members.data()};
  const std::size_t count = portable::gather_between(level, between);
  std::sort(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(count), std::greater<>());
  const std::uint32_t key = members[rank - above_high - 1];
  const auto first = std::find(members.begin(), members.end(), key);
  return {key, above_high + static_cast<std::size_t>(first - members.begin())};
}

/// One thread's scopes, one after another.
class ScopeSearch {
 public:
  ScopeSearch(SimdLevel level, const Selection& selection, const FixedScopes& scopes, const Section& memory)
      : level_(level), selection_(selection), scopes_(scopes), section_(memory) {}

  /// False if the scope has a NaN or an Inf.
  bool select(std::size_t scope) {
    const std::size_t n = selection_.gradient.size();
    const std::size_t k = scopes_.keep_of(scope, n);
    section_.range = {scope * scopes_.each, std::min<std::size_t>((scope + 1) * scopes_.each, n)};
    section_.bounds = k == 0 ? Bounds{INT32_MAX, INT32_MAX} : bounds_;
    section_.highest = 0;
    scan(false);
    const SparseView target = selection_.selected.sub(scope * scopes_.keep, k);
    if (section_.highest >= static_cast<std::int32_t>(kNonfiniteKey)) {
      give_up(target);
      return false;
    }
    if (k == 0) return true;
    for (int misses = 1; section_.count < k; ++misses) {
      restore_section(selection_, section_);
      section_.bounds.candidate = lower(section_.bounds.candidate, misses);
      scan(true);
    }
    const Kth kth = threshold(k);
    section_.greater = kth.greater;
    section_.equal = k - kth.greater;
    const auto key = static_cast<std::int32_t>(kth.key);
    bounds_ = {std::max(key - kMargin, 0), key};
    const EmitSection emit{&section_, kth.key, selection_.rest.data(), target.indices.data(), target.values.data()};
    LACONIC_VECTOR_CALL(level_, emit_section, emit);
    return true;
  }

 private:
  /// Two octaves lower, then everything but zeros, then everything.
  static std::int32_t lower(std::int32_t missed, int misses) {
    if (missed == 0) return -1;
    return misses == 1 ? std::max(missed - kMiss, 0) : 0;
  }

  void scan(bool again) {
    section_.count = 0;
    for (std::size_t begin = section_.range.begin; begin < section_.range.end; begin += kBlock) {
      const std::size_t end = std::min(begin + kBlock, section_.range.end);
      const float* gradient =
          again ? nullptr : floats_.read(level_, selection_.gradient.sub(begin, end - begin)).data();
      const ScanBlock block{gradient,                           selection_.residual.data() + begin,
                            selection_.rest.data() + begin,     end - begin,
                            static_cast<std::uint32_t>(begin),  section_.bounds,
                            section_.indices + section_.count,  section_.values + section_.count};
      section_.count += again ? LACONIC_VECTOR_CALL(level_, scan_again, block, section_.highest)
                              : LACONIC_VECTOR_CALL(level_, scan_add, block, section_.highest);
    }
  }

  Kth threshold(std::size_t k) const {
    const std::int32_t low = section_.bounds.candidate;
    if (low >= 0) return kth_between(level_, section_.values, section_.count, k, low, section_.highest);
    // Fewer than k entries are not zero.
    return {0, portable::count_above(level_, section_.values, section_.count, 0)};
  }

  void give_up(SparseView target) const {
    for (std::size_t i = 0; i < target.size(); ++i) {
      target.indices[i] = static_cast<std::uint32_t>(section_.range.begin + i);
      target.values[i] = 0.0F;
    }
  }

  SimdLevel level_;
  const Selection& selection_;
  const FixedScopes& scopes_;
  Section section_;
  Bounds bounds_{0, INT32_MAX};  ///< of the next scope
  FloatBlock<kBlock> floats_;
};

}  // namespace

void search_scopes(Place& place, const Selection& selection, const FixedScopes& scopes, Status& status) {
  const std::size_t n = selection.gradient.size();
  const std::size_t count = scopes.count(n);
  const std::size_t most = std::clamp<std::size_t>(n / kShortestRange, 1, static_cast<std::size_t>(place.threads()));
  const Workspace::Scope scope(place.workspace());
  const auto sections = place.workspace().take<Section>(most);
  for (std::size_t i = 0; i < most; ++i) {
    Section& section = *std::construct_at(&sections[i]);
    make_room(place.workspace(), std::min<std::size_t>(scopes.each, n), section);
  }
  std::atomic<bool> finite{true};
  place.pool().run(most, [&](std::size_t i) {
    ScopeSearch search(place.simd(), selection, scopes, sections[i]);
    const Range range = part_of(count, i, most, 1);
    for (std::size_t each = range.begin; each < range.end; ++each) {
      if (!search.select(each)) finite = false;
    }
  });
  if (!finite) status.nonfinite = 1;
}

}  // namespace laconic::topk
