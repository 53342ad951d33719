#include <algorithm>
#include <bit>

#include "kernels/simd.h"
#include "kernels/topk/candidates.h"
#include "kernels/topk/loops.h"

namespace laconic::topk {
namespace {

/// The keys among which the threshold still is: [low, low + kBins << shift) in bins.
struct Window {
  std::uint32_t low;
  unsigned shift;
};

/// Below this many keys waking the other threads costs more than it saves.
constexpr std::size_t kFewKeys = 16'384;

void for_each_section(ThreadPool& pool, std::span<Section> sections, FunctionRef<void(std::size_t)> body) {
  std::size_t keys = 0;
  for (const Section& section : sections) keys += section.members;
  if (keys >= kFewKeys) return pool.run(sections.size(), body);
  for (std::size_t i = 0; i < sections.size(); ++i) body(i);
}

void count_bins(const std::uint32_t* keys, std::size_t n, Window window, View<std::uint32_t> bins) {
  std::fill(bins.begin(), bins.end(), 0U);
  for (std::size_t i = 0; i < n; ++i) {
    // What lies below wraps round to a large number and lands in the bin beyond the last, without a branch.
    const std::uint32_t above = (keys[i] & kMagnitude) - window.low;
    ++bins[std::min<std::size_t>(above >> window.shift, kBins)];
  }
}

/// The bin that holds the rank-th key from above; takes what lies above off the rank and adds it to the sections'
/// `greater`.
std::size_t find_bin(std::span<Section> sections, View<std::uint32_t> histograms, std::size_t& rank) {
  for (std::size_t bin = kBins; bin-- > 0;) {
    std::size_t in_bin = 0;
    for (std::size_t i = 0; i < sections.size(); ++i) in_bin += histograms[i * kHistogram + bin];
    if (in_bin >= rank) return bin;
    if (in_bin == 0) continue;
    rank -= in_bin;
    for (std::size_t i = 0; i < sections.size(); ++i) sections[i].greater += histograms[i * kHistogram + bin];
  }
  return 0;
}

/// Deals the equals that are taken, lowest index first, and says where each section's selected entries go.
void deal(std::span<Section> sections, std::size_t equals) {
  std::size_t offset = 0;
  for (Section& section : sections) {
    section.equal = std::min(section.equal, equals);
    equals -= section.equal;
    section.offset = offset;
    offset += section.greater + section.equal;
  }
}

}  // namespace

std::uint32_t choose_threshold(SimdLevel level, ThreadPool& pool, std::span<Section> sections, std::int32_t base,
                               std::size_t k, View<std::uint32_t> histograms) {
  std::uint32_t highest = 0;
  for (Section& section : sections) {
    highest = std::max(highest, static_cast<std::uint32_t>(section.highest));
    section.greater = 0;
    section.members = section.count;
  }
  std::size_t rank = k;
  Window window{static_cast<std::uint32_t>(base + 1), 0};
  const auto width = static_cast<unsigned>(std::bit_width(highest - window.low));
  window.shift = width > kBinBits ? width - kBinBits : 0;
  for (bool first = true;; first = false) {
    for_each_section(pool, sections, [&](std::size_t i) {
      const std::uint32_t* keys = first ? sections[i].keys : sections[i].scratch;
      count_bins(keys, sections[i].members, window, histograms.sub(i * kHistogram, kHistogram));
    });
    const std::size_t bin = find_bin(sections, histograms, rank);
    window.low += static_cast<std::uint32_t>(bin << window.shift);
    if (window.shift == 0) {
      for (std::size_t i = 0; i < sections.size(); ++i) sections[i].equal = histograms[i * kHistogram + bin];
      deal(sections, rank);
      return window.low;
    }
    const std::uint32_t last = window.low + ((1U << window.shift) - 1);
    for_each_section(pool, sections, [&](std::size_t i) {
      Section& section = sections[i];
      const std::uint32_t* keys = first ? section.keys : section.scratch;
      const GatherKeys gather{keys, section.members, window.low, last, section.scratch};
      section.members = LACONIC_VECTOR_CALL(level, gather_between, gather);
    });
    window.shift = window.shift > kBinBits ? window.shift - kBinBits : 0;
  }
}

}  // namespace laconic::topk
