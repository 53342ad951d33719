#include <algorithm>
#include <array>
#include <optional>

#include "kernels/simd.h"
#include "kernels/topk/candidates.h"
#include "kernels/topk/kth_largest.h"
#include "kernels/topk/loops.h"

namespace laconic::topk {
namespace {

constexpr std::uint32_t kMagnitude = 0x7FFF'FFFFU;

bool was_zeroed(const Part& part, std::size_t i) {
  return static_cast<std::int32_t>(part.keys[i] & kMagnitude) > part.bounds.zero;
}

/// Cuts a part's candidates down to its k largest. No later entry of the range that is not above the last of them can
/// be selected: k entries of lower index are at least as large.
void cut_to_largest(const Selection& selection, Part& part) {
  const std::size_t k = selection.selected.size();
  if (part.count <= k) return;
  const Kth kth = k == 0 ? Kth{kMagnitude, 0} : kth_largest(part.keys, part.count, k, part.scratch);
  std::size_t equals_left = k - kth.greater;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < part.count; ++i) {
    const std::uint32_t key = part.keys[i] & kMagnitude;
    const bool equal = key == kth.key && equals_left > 0;
    if (key > kth.key || equal) {
      equals_left -= equal ? 1 : 0;
      part.indices[kept] = part.indices[i];
      part.keys[kept] = part.keys[i];
      part.values[kept] = part.values[i];
      ++kept;
    } else if (was_zeroed(part, i)) {
      selection.rest[part.indices[i]] = std::bit_cast<float>(part.values[i]);
    }
  }
  part.count = kept;
  part.sound = std::min(part.sound, k);
  part.bounds.candidate = std::max(part.bounds.candidate, static_cast<std::int32_t>(kth.key));
}

/// Joins the candidates of a block with the support, block after block of a part's range.
class Rescorer {
 public:
  Rescorer(const Selection& selection, const Part& part) : selection_(selection), start_(part.bounds.candidate) {
    const auto support = selection.rescored->indices;
    next_ =
        static_cast<std::size_t>(std::lower_bound(support.begin(), support.end(), part.range.begin) - support.begin());
  }

  /// The candidates from `first` on are those of the block that ends at `end`: makes their keys, undoes the zeros of
  /// those whose score no longer promises to be selected, and counts the sound ones.
  void rescore(Part& part, std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < part.count; ++i) {
      part.keys[i] = part.values[i] & kMagnitude;
      slots_[part.indices[i] % kBlock] = static_cast<std::uint16_t>(i - first);
    }
    for (std::size_t found = kBlock; found == kBlock;) {  // once, unless the support says an index twice
      found = match(part, first, end);
      selection_.rescored->score({positions_.data(), values_.data(), scores_.data(), found});
      for (std::size_t i = 0; i < found; ++i) apply(part, first, i);
    }
    for (std::size_t i = first; i < part.count; ++i) {
      part.sound += static_cast<std::int32_t>(part.keys[i]) > start_ ? 1 : 0;
    }
  }

 private:
  /// Writes down the support's entries in the block that are candidates.
  std::size_t match(const Part& part, std::size_t first, std::size_t end) {
    const auto support = selection_.rescored->indices;
    std::size_t found = 0;
    for (; next_ < support.size() && support[next_] < end && found < kBlock; ++next_) {
      // A slot may be left over from an earlier block, so the candidate itself says whether it is meant.
      const std::size_t i = first + slots_[support[next_] % kBlock];
      positions_[found] = static_cast<std::uint32_t>(next_);
      values_[found] = std::bit_cast<float>(part.values[i]);
      found += i < part.count && part.indices[i] == support[next_] ? 1 : 0;
    }
    return found;
  }

  void apply(Part& part, std::size_t first, std::size_t match) const {
    const std::size_t i = first + slots_[selection_.rescored->indices[positions_[match]] % kBlock];
    const bool zeroed = was_zeroed(part, i);
    part.keys[i] = key_of(scores_[match]);
    if (zeroed && !was_zeroed(part, i)) selection_.rest[part.indices[i]] = values_[match];
  }

  const Selection& selection_;
  std::int32_t start_;
  std::size_t next_ = 0;
  std::array<std::uint16_t, kBlock> slots_{};
  std::array<std::uint32_t, kBlock> positions_;
  std::array<float, kBlock> values_;
  std::array<float, kBlock> scores_;
};

}  // namespace

void scan_part(SimdLevel level, const Selection& selection, Part& part, bool again) {
  const std::size_t k = selection.selected.size();
  const std::int32_t start = part.bounds.candidate;
  std::optional<Rescorer> rescorer;
  if (selection.rescored != nullptr) rescorer.emplace(selection, part);
  for (std::size_t begin = part.range.begin; begin < part.range.end; begin += kBlock) {
    // Many entries may equal the bound's next key; once k candidates are there, those that follow are not needed.
    if (part.sound >= k && part.bounds.candidate == start && start < INT32_MAX) ++part.bounds.candidate;
    if (part.count + kBlock > part.capacity) cut_to_largest(selection, part);

    const std::size_t end = std::min(begin + kBlock, part.range.end);
    const Bounds bounds{part.bounds.candidate, std::max(part.bounds.zero, part.bounds.candidate)};
    const ScanBlock block{selection.gradient.data() + begin, selection.residual.data() + begin,
                          selection.rest.data() + begin,     end - begin,
                          static_cast<std::uint32_t>(begin), bounds,
                          part.indices + part.count,         part.values + part.count};
    const std::size_t first = part.count;
    part.count += again ? LACONIC_VECTOR_CALL(level, scan_again, block, part.highest)
                        : LACONIC_VECTOR_CALL(level, scan_add, block, part.highest);
    if (rescorer) {
      rescorer->rescore(part, first, end);
    } else {
      part.sound = part.count;
    }
  }
}

void restore_part(const Selection& selection, const Part& part) {
  for (std::size_t i = 0; i < part.count; ++i) {
    if (was_zeroed(part, i)) selection.rest[part.indices[i]] = std::bit_cast<float>(part.values[i]);
  }
}

}  // namespace laconic::topk
