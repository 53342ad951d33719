#include "kernels/topk/sample.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/convert/blocks.h"
#include "kernels/residual.h"
#include "kernels/topk/kth_largest.h"

namespace laconic::topk {
namespace {

constexpr std::size_t kFewestLines = kLeastSampled / kLine;
constexpr std::size_t kWarmLines = 1024;  // to confirm a guess
constexpr std::size_t kColdLines = 2048;  // to make one
constexpr std::size_t kAhead = 12;        // lines asked for before they are read; they are far apart

/// An entry of a, before `rest` has it.
float value_at(const Selection& selection, std::size_t i) {
  return with_residual(number_at(selection.gradient, i), selection.residual[i]);
}

/// Keys of whole cache lines, one from each of equal ranges of the view.
class Sample {
 public:
  /// `memory` holds three times lines x kLine words.
  Sample(ThreadPool& pool, const Selection& selection, View<std::uint32_t> memory, std::size_t lines, bool again)
      : lines_(lines),
        keys_(memory.sub(0, lines * kLine)),
        top_(memory.sub(lines * kLine, lines * kLine)),
        scratch_(memory.sub(2 * lines * kLine, lines * kLine)) {
    const auto sections = lines < kWarmLines ? 1 : static_cast<std::size_t>(pool.threads());
    pool.run(sections, [&](std::size_t section) {
      const Range range = part_of(lines, section, sections, 1);
      for (std::size_t line = range.begin; line < range.end; ++line) read(selection, line, again);
    });
  }

  std::size_t size() const { return keys_.size(); }

  /// How many keys are at least `key`, and how that varies between lines.
  struct Count {
    double mean;
    double deviation;
  };
  Count count(std::uint32_t key) const {
    std::uint64_t sum = 0;
    std::uint64_t squares = 0;
    for (std::size_t line = 0; line < lines_; ++line) {
      std::uint32_t here = 0;
      for (std::size_t i = 0; i < kLine; ++i) here += keys_[line * kLine + i] >= key ? 1 : 0;
      sum += here;
      squares += here * here;
    }
    const auto mean = static_cast<double>(sum);
    const double variance = static_cast<double>(squares) - mean * mean / static_cast<double>(lines_);
    return {mean, std::sqrt(std::max(variance, mean))};
  }

  /// Makes `at_rank` cheap for ranks up to this one, by setting the keys apart that can have them.
  void set_top_apart(double rank) {
    std::array<std::uint32_t, 2048> counts{};
    for (const std::uint32_t key : keys_) ++counts[key >> 20];
    std::uint32_t digit = 2047;
    for (double above = counts[digit]; above < rank && digit > 0; above += counts[digit]) --digit;
    top_count_ = 0;
    for (const std::uint32_t key : keys_) {
      top_[top_count_] = key;
      top_count_ += key >> 20 >= digit ? 1 : 0;
    }
  }

  /// The key of that rank from above; 0 where the rank is beyond the sample.
  std::uint32_t at_rank(double rank) {
    if (!(rank < static_cast<double>(size()))) return 0;
    const auto whole = std::max<std::size_t>(static_cast<std::size_t>(rank), 1);
    return kth_largest(top_.data(), top_count_, std::min(whole, top_count_), scratch_.data()).key;
  }

 private:
  void ask_for(const Selection& selection, std::size_t line, bool again) const {
    const std::size_t begin = sampled_at(selection.rest.size(), lines_, std::min(line, lines_ - 1), again);
    if (again) return __builtin_prefetch(selection.rest.data() + begin);
    __builtin_prefetch(selection.gradient.sub(begin, 1).data());
    __builtin_prefetch(selection.residual.data() + begin);
  }

  void read(const Selection& selection, std::size_t line, bool again) {
    ask_for(selection, line + kAhead, again);
    const std::size_t begin = sampled_at(selection.rest.size(), lines_, line, again);
    std::uint32_t* keys = keys_.data() + line * kLine;
    for (std::size_t i = 0; i < kLine; ++i) {
      const std::size_t at = begin + i;
      keys[i] = key_of(again ? selection.rest[at] : value_at(selection, at));
    }
    if (selection.rescored != nullptr) rescore(*selection.rescored, selection, begin, again, keys);
  }

  static void rescore(const Rescored& rescored, const Selection& selection, std::size_t begin, bool again,
                      std::uint32_t* keys) {
    const auto support = rescored.indices;
    for (auto next = std::lower_bound(support.begin(), support.end(), begin);
         next != support.end() && *next < begin + kLine; ++next) {
      const std::size_t at = *next;
      const float value = again ? selection.rest[at] : value_at(selection, at);
      keys[at - begin] = key_of(rescored.score_at(static_cast<std::uint32_t>(next - support.begin()), value));
    }
  }

  std::size_t lines_;
  View<std::uint32_t> keys_;
  View<std::uint32_t> top_;
  std::size_t top_count_ = 0;
  View<std::uint32_t> scratch_;
};

/// "At least key" as a strict bound.
std::int32_t bound_at(std::uint32_t key) { return static_cast<std::int32_t>(key) - 1; }

std::size_t lines_for(std::size_t n, std::size_t most) { return std::clamp(n / (8 * kLine), kFewestLines, most); }

}  // namespace

std::size_t cold_lines(std::size_t n) { return lines_for(n, kColdLines); }

Bounds sample_bounds(Place& place, const Selection& selection, std::uint32_t guess, double deviations, bool again) {
  const std::size_t n = selection.rest.size();
  const auto k = static_cast<double>(selection.selected.size());
  Workspace::Scope scope(place.workspace());
  if (n < kLeastSampled) return {-1, guess > 0 ? bound_at(guess) : INT32_MAX};
  const auto memory = place.workspace().take<std::uint32_t>(3 * kLine * cold_lines(n));
  const auto margin = [&](double deviation) { return deviations * deviation + deviations * deviations / 2; };
  const auto expected_in = [&](const Sample& sample) {
    return k * static_cast<double>(sample.size()) / static_cast<double>(n);
  };

  if (guess > 0) {
    Sample sample(place.pool(), selection, memory, lines_for(n, kWarmLines), again);
    const double expected = expected_in(sample);
    const Sample::Count found = sample.count(guess);
    const double allowed = margin(std::max(found.deviation, std::sqrt(expected)));
    if (std::abs(found.mean - expected) <= allowed) {
      sample.set_top_apart(expected + allowed);
      return {bound_at(sample.at_rank(expected + allowed)), bound_at(guess)};
    }
  }
  Sample sample(place.pool(), selection, memory, cold_lines(n), again);
  const double expected = expected_in(sample);
  // A line counts at most kLine, which bounds the deviation.
  sample.set_top_apart(expected + margin(std::sqrt(kLine * (expected + 1))));
  const std::uint32_t middle = sample.at_rank(std::round(expected));
  return {bound_at(sample.at_rank(expected + margin(sample.count(middle).deviation))), bound_at(middle)};
}

}  // namespace laconic::topk
