#include <algorithm>
#include <array>

#include "base/workspace.h"
#include "kernels/simd.h"
#include "kernels/topk/candidates.h"
#include "kernels/topk/loops.h"
#include "kernels/topk/sample.h"

namespace laconic::topk {
namespace {

/// Room for the candidates that a sampled bound finds when k is small.
constexpr std::size_t kLeastCapacity = 65'536;

/// Standard deviations by which the first bound errs on the safe side, and the second after a miss.
constexpr double kDeviations = 4.0;
constexpr double kMoreDeviations = 12.0;

/// The buffers of one call, one section per thread.
class Search {
 public:
  Search(Place& place, const Selection& selection) : place_(place), selection_(selection), scope_(place.workspace()) {
    const std::size_t n = selection.gradient.size();
    const std::size_t most = std::clamp<std::size_t>(n / kShortestRange, 1, static_cast<std::size_t>(place.threads()));
    const auto memory = place.workspace().take<Section>(most);
    sections_ = {memory.data(), most};
    for (std::size_t i = 0; i < most; ++i) make_section(*std::construct_at(&sections_[i]), part_of(n, i, most, kBlock));
    histograms_ = place.workspace().take<std::uint32_t>(most * kHistogram);
  }

  void run(Status& status) {
    const float guess = status.threshold;
    const bool warm = guess > 0.0F && key_of(guess) < kNonfiniteKey;
    Bounds bounds{INT32_MAX, INT32_MAX};
    if (k() > 0) bounds = sample_bounds(place_, selection_, warm ? key_of(guess) : 0, kDeviations, false);
    scan(bounds, false);
    if (highest() >= static_cast<std::int32_t>(kNonfiniteKey)) return give_up_nonfinite(selection_, status);
    for (int misses = 1; sound() < k(); ++misses) {
      ++status.rescans;
      bounds = lower_bounds(bounds, misses);
      scan(bounds, true);
    }
    status.count = k();
    status.threshold = k() == 0 ? 0.0F : emit(bounds);
  }

 private:
  std::size_t k() const { return selection_.selected.size(); }

  void make_section(Section& section, Range range) {
    // Three times k, so that each cut to k makes room for at least as much work as it costs.
    section.range = range;
    section.capacity = std::min(range.size(), std::max(3 * k(), kLeastCapacity)) + kBlock;
    make_room(place_.workspace(), section.capacity, section);
    if (selection_.rescored != nullptr) {
      section.keys = place_.workspace().take<std::uint32_t>(section.capacity + kOverrun).data();
    }
  }

  void scan(Bounds bounds, bool again) {
    place_.pool().run(sections_.size(), [&](std::size_t i) {
      Section& section = sections_[i];
      section.bounds = bounds;
      section.count = section.sound = 0;
      scan_section(place_.simd(), selection_, section, again);
    });
  }

  /// After a miss: a wider sample of what is now in `rest`, and if that is no lower or missed too, everything.
  Bounds lower_bounds(Bounds missed, int misses) {
    place_.pool().run(sections_.size(), [&](std::size_t i) { restore_section(selection_, sections_[i]); });
    const Bounds bounds = sample_bounds(place_, selection_, 0, kMoreDeviations, true);
    if (misses == 1 && bounds.candidate < missed.candidate) return bounds;
    return {-1, bounds.zero};
  }

  float emit(Bounds bounds) {
    const std::uint32_t threshold =
        choose_threshold(place_.simd(), place_.pool(), sections_, bounds.candidate, k(), histograms_);
    place_.pool().run(sections_.size(), [&](std::size_t i) {
      const Section& section = sections_[i];
      const SparseView target = selection_.selected.sub(section.offset, section.greater + section.equal);
      const EmitSection emit{&section, threshold, selection_.rest.data(), target.indices.data(), target.values.data()};
      LACONIC_VECTOR_CALL(place_.simd(), emit_section, emit);
    });
    return std::bit_cast<float>(threshold);
  }

  std::size_t sound() const {
    std::size_t sum = 0;
    for (const Section& section : sections_) sum += section.sound;
    return sum;
  }
  std::int32_t highest() const {
    std::int32_t most = 0;
    for (const Section& section : sections_) most = std::max(most, section.highest);
    return most;
  }

  Place& place_;
  const Selection& selection_;
  Workspace::Scope scope_;
  std::span<Section> sections_;
  View<std::uint32_t> histograms_;
};

}  // namespace

void search_largest(Place& place, const Selection& selection, Status& status) { Search(place, selection).run(status); }

}  // namespace laconic::topk
