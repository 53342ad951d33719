#pragma once

#include "base/workspace.h"
#include "kernels/topk/candidates.h"

namespace laconic::topk {

/// Estimates bounds for a scan from cache lines of a at jittered but deterministic positions. `guess` is the key of the
/// last step's threshold, or 0. It becomes the zero bound if the sample agrees with it, so a wrong guess is detected
/// before the pass instead of after it. The candidate bound has a safety margin of `deviations` standard deviations of
/// the count between lines; entries cluster, so a margin that assumes independent entries would be too small. If
/// `again`, a lies in `rest`. Costs a few thousand cache misses.
Bounds sample_bounds(Place& place, const Selection& selection, std::uint32_t guess, double deviations, bool again);

/// A cache line has kLine entries. A sample without a guess divides n >= kLeastSampled entries into cold_lines(n) equal
/// parts and reads one line, which begins at sampled_at, from each. Smaller views are not sampled.
inline constexpr std::size_t kLine = 16;
inline constexpr std::size_t kLeastSampled = 1024;
std::size_t cold_lines(std::size_t n);

/// A well mixed function of the line's number: where it lies in its range of the view.
constexpr std::uint64_t sample_jitter(std::uint64_t line) {
  line = (line + 1) * 0x9E37'79B9'7F4A'7C15U;
  line = (line ^ line >> 30) * 0xBF58'476D'1CE4'E5B9U;
  line = (line ^ line >> 27) * 0x94D0'49BB'1331'11EBU;
  return line ^ line >> 31;
}
constexpr std::size_t sampled_at(std::size_t n, std::size_t lines, std::size_t line, bool again) {
  const std::size_t units = n / kLine;
  const std::size_t low = line * units / lines;
  const std::size_t width = (line + 1) * units / lines - low;
  return (low + sample_jitter(line * 2 + (again ? 1 : 0)) % width) * kLine;
}

}  // namespace laconic::topk
