#pragma once

#include <algorithm>
#include <span>

#include "base/thread_pool.h"
#include "kernels/vote/vote.h"

// The loops behind kernels/vote. Each works on one range of words of all ballots, of which there are 1 to kMostBallots.

namespace laconic {

using Ballots = std::span<const View<const std::uint32_t>>;

inline constexpr std::size_t kMostBallots = 65'535;

}  // namespace laconic

namespace laconic::reference {
void vote(Ballots ballots, Range range, const TieRule& rule, std::uint32_t* out);
}  // namespace laconic::reference

namespace laconic {

/// Vectors work on whole groups of draws; a group of draws serves this many words. vote_on_ends returns the range of
/// whole groups, and votes on the short ends before and after it with the reference.
inline constexpr std::size_t kDrawGroup = 64;
inline Range vote_on_ends(Ballots ballots, Range range, const TieRule& rule, std::uint32_t* out) {
  const std::size_t past = (rule.first_word + range.begin) % kDrawGroup;
  const std::size_t begin = std::min(range.end, range.begin + (past == 0 ? 0 : kDrawGroup - past));
  const std::size_t end = begin + (range.end - begin) / kDrawGroup * kDrawGroup;
  reference::vote(ballots, {range.begin, begin}, rule, out);
  reference::vote(ballots, {end, range.end}, rule, out);
  return {begin, end};
}

}  // namespace laconic

namespace laconic::portable {
void vote(SimdLevel level, Ballots ballots, Range range, const TieRule& rule, std::uint32_t* out);
}  // namespace laconic::portable

namespace laconic::simd {
void vote(SimdLevel level, Ballots ballots, Range range, const TieRule& rule, std::uint32_t* out);
}  // namespace laconic::simd
