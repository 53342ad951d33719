#pragma once

#include "base/workspace.h"
#include "kernels/topk/candidates.h"

namespace laconic::topk {

/// Bounds for a scan, from cache lines of a at jittered places (deterministic). `guess`: the key of last step's
/// threshold, or 0; it becomes the zero bound when the sample agrees with it, so a wrong guess is found out before the
/// pass instead of after it. The candidate bound has a safety margin of `deviations` standard deviations of the count
/// between lines; entries cluster, so a margin that took single entries for independent would be too small.
/// `again`: a lies in `rest`. Costs some thousand cache misses.
Bounds sample_bounds(Place& place, const Selection& selection, std::uint32_t guess, double deviations, bool again);

/// Cache lines are this many entries; a sample without a guess reads one from each of cold_lines(n) equal shares of n
/// >= kLeastSampled entries, beginning at sampled_at. Smaller views are not sampled.
inline constexpr std::size_t kLine = 16;
inline constexpr std::size_t kLeastSampled = 1024;
std::size_t cold_lines(std::size_t n);
std::size_t sampled_at(std::size_t n, std::size_t lines, std::size_t line, bool again);

}  // namespace laconic::topk
