#pragma once

#include <algorithm>
#include <span>

#include "base/thread_pool.h"
#include "kernels/vote/abstain.h"
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

/// The rule for a slice, for a loop that counts words from the ballots' first one.
inline TieRule rule_in_ballots(const TieRule& rule, const VoteSlice& slice) {
  TieRule there = rule.of(slice);
  there.first_word -= slice.word;  // may wrap; the sum with a word of the slice does not
  return there;
}

}  // namespace laconic

namespace laconic::portable {
void vote(SimdLevel level, Ballots ballots, Range range, const TieRule& rule, std::uint32_t* out);
}  // namespace laconic::portable

namespace laconic::simd {
void vote(SimdLevel level, Ballots ballots, Range range, const TieRule& rule, std::uint32_t* out);
}  // namespace laconic::simd

// The twins, on a place's stream; contracts as in vote.h and abstain.h.
namespace laconic::cuda {
void vote(Place& place, Ballots ballots, const TieRule& rule, Each<VoteSlice> slices, View<std::uint32_t> out);
void abstention_margins(Place& place, View<const float> values, float least, View<float> margins);
void silence(Place& place, View<const float> nobody, View<float> vote);
void vote_with_abstentions(Place& place, std::span<const OpenBallot> ballots, const TieRule& rule,
                           Each<VoteSlice> slices, View<std::uint32_t> signs, View<std::uint32_t> abstains);
}  // namespace laconic::cuda
