#include <algorithm>
#include <array>
#include <optional>

#include "kernels/convert/blocks.h"
#include "kernels/simd.h"
#include "kernels/topk/candidates.h"
#include "kernels/topk/kth_largest.h"
#include "kernels/topk/loops.h"

namespace laconic::topk {
namespace {

bool was_zeroed(const Section& section, std::size_t i) {
  return static_cast<std::int32_t>(section.keys[i] & kMagnitude) > section.bounds.zero;
}

/// Cuts a section's candidates down to its k largest. No later entry of the range that is not above the last of them
/// can be selected: k entries of lower index are at least as large.
void cut_to_largest(const Selection& selection, Section& section) {
  const std::size_t k = selection.selected.size();
  if (section.count <= k) return;
  const Kth kth = k == 0 ? Kth{kMagnitude, 0} : kth_largest(section.keys, section.count, k, section.scratch);
  std::size_t equals_left = k - kth.greater;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < section.count; ++i) {
    const std::uint32_t key = section.keys[i] & kMagnitude;
    const bool equal = key == kth.key && equals_left > 0;
    if (key > kth.key || equal) {
      equals_left -= equal ? 1 : 0;
      section.indices[kept] = section.indices[i];
      section.keys[kept] = section.keys[i];
      section.values[kept] = section.values[i];
      ++kept;
    } else if (was_zeroed(section, i)) {
      selection.rest[section.indices[i]] = std::bit_cast<float>(section.values[i]);
    }
  }
  section.count = kept;
  section.sound = std::min(section.sound, k);
  section.bounds.candidate = std::max(section.bounds.candidate, static_cast<std::int32_t>(kth.key));
}

/// Joins the candidates of a block with the support, block after block of a section's range.
class Rescorer {
 public:
  Rescorer(const Selection& selection, const Section& section)
      : selection_(selection), start_(section.bounds.candidate) {
    const auto support = selection.rescored->indices;
    next_ =
        static_cast<std::size_t>(std::lower_bound(support.begin(), support.end(), section.range.begin) -
                                 support.begin());
  }

  /// The candidates from `first` on are those of the block that ends at `end`: makes their keys, undoes the zeros of
  /// those whose score no longer promises to be selected, and counts the sound ones.
  void rescore(Section& section, std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < section.count; ++i) {
      section.keys[i] = section.values[i] & kMagnitude;
      slots_[section.indices[i] % kBlock] = static_cast<std::uint16_t>(i - first);
    }
    for (std::size_t found = kBlock; found == kBlock;) {  // once, unless the support says an index twice
      found = match(section, first, end);
      selection_.rescored->score({positions_.data(), values_.data(), scores_.data(), found});
      for (std::size_t i = 0; i < found; ++i) apply(section, first, i);
    }
    for (std::size_t i = first; i < section.count; ++i) {
      section.sound += static_cast<std::int32_t>(section.keys[i]) > start_ ? 1 : 0;
    }
  }

 private:
  /// Writes down the support's entries in the block that are candidates.
  std::size_t match(const Section& section, std::size_t first, std::size_t end) {
    const auto support = selection_.rescored->indices;
    std::size_t found = 0;
    for (; next_ < support.size() && support[next_] < end && found < kBlock; ++next_) {
      // A slot may be left over from an earlier block, so the candidate itself says whether it is meant.
      const std::size_t i = first + slots_[support[next_] % kBlock];
      positions_[found] = static_cast<std::uint32_t>(next_);
      values_[found] = std::bit_cast<float>(section.values[i]);
      found += i < section.count && section.indices[i] == support[next_] ? 1 : 0;
    }
    return found;
  }

  void apply(Section& section, std::size_t first, std::size_t match) const {
    const std::size_t i = first + slots_[selection_.rescored->indices[positions_[match]] % kBlock];
    const bool zeroed = was_zeroed(section, i);
    section.keys[i] = key_of(scores_[match]);
    if (zeroed && !was_zeroed(section, i)) selection_.rest[section.indices[i]] = values_[match];
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

void make_room(Workspace& workspace, std::size_t candidates, Section& section) {
  for (std::uint32_t** array : {&section.indices, &section.values, &section.scratch}) {
    *array = workspace.take<std::uint32_t>(candidates + kOverrun).data();
  }
  section.keys = section.values;
}

void scan_section(SimdLevel level, const Selection& selection, Section& section, bool again) {
  const std::size_t k = selection.selected.size();
  const std::int32_t start = section.bounds.candidate;
  std::optional<Rescorer> rescorer;
  if (selection.rescored != nullptr) rescorer.emplace(selection, section);
  FloatBlock<kBlock> floats;
  for (std::size_t begin = section.range.begin; begin < section.range.end; begin += kBlock) {
    // Many entries may equal the bound's next key; once k candidates are there, those that follow are not needed.
    if (section.sound >= k && section.bounds.candidate == start && start < INT32_MAX) ++section.bounds.candidate;
    if (section.count + kBlock > section.capacity) cut_to_largest(selection, section);

    const std::size_t end = std::min(begin + kBlock, section.range.end);
    const Bounds bounds{section.bounds.candidate, std::max(section.bounds.zero, section.bounds.candidate)};
    const float* gradient = again ? nullptr : floats.read(level, selection.gradient.sub(begin, end - begin)).data();
    const ScanBlock block{gradient,                          selection.residual.data() + begin,
                          selection.rest.data() + begin,     end - begin,
                          static_cast<std::uint32_t>(begin), bounds,
                          section.indices + section.count,         section.values + section.count};
    const std::size_t first = section.count;
    section.count += again ? LACONIC_VECTOR_CALL(level, scan_again, block, section.highest)
                        : LACONIC_VECTOR_CALL(level, scan_add, block, section.highest);
    if (rescorer) {
      rescorer->rescore(section, first, end);
    } else {
      section.sound = section.count;
    }
  }
}

void restore_section(const Selection& selection, const Section& section) {
  for (std::size_t i = 0; i < section.count; ++i) {
    if (was_zeroed(section, i)) selection.rest[section.indices[i]] = std::bit_cast<float>(section.values[i]);
  }
}

}  // namespace laconic::topk
