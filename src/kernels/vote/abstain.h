#pragma once

#include "kernels/vote/vote.h"

namespace laconic {

/// One worker's ballot with abstentions. If bit i of `abstains` is 1, the worker casts no vote there and bit i of
/// `signs` is ignored.
struct OpenBallot {
  View<const std::uint32_t> signs;
  View<const std::uint32_t> abstains;
};

/// margins[i] = |values[i]| - least, which is negative where a worker abstains.
void abstention_margins(Place& place, View<const float> values, float least, View<float> margins);

/// vote[i] = 0 where nobody[i] is negative.
void silence(Place& place, View<const float> nobody, View<float> vote);

/// Majority of the workers that vote, bit by bit. The rule decides ties. Where nobody votes, the result abstains. Bits
/// that abstain have sign 0 (plus). There are 1 to 65,535 ballots, all with the same number of words.
void vote_with_abstentions(Place& place, std::span<const OpenBallot> ballots, const TieRule& rule,
                           View<std::uint32_t> signs, View<std::uint32_t> abstains);
/// By slices, as `vote`.
void vote_with_abstentions(Place& place, std::span<const OpenBallot> ballots, const TieRule& rule,
                           Each<VoteSlice> slices, View<std::uint32_t> signs, View<std::uint32_t> abstains);

}  // namespace laconic
