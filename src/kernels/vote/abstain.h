#pragma once

#include "kernels/vote/vote.h"

namespace laconic {

/// One worker's ballot with abstentions: bit i of `abstains` is 1 where it casts no vote, and `signs` is not looked at.
struct OpenBallot {
  View<const std::uint32_t> signs;
  View<const std::uint32_t> abstains;
};

/// margins[i] = |values[i]| - least: negative where a worker abstains.
void abstention_margins(Place& place, View<const float> values, float least, View<float> margins);

/// vote[i] = 0 where nobody[i] is negative.
void silence(Place& place, View<const float> nobody, View<float> vote);

/// Majority among those who vote, bit by bit; exactly half fall as the rule says; where nobody votes the result abstains.
/// Bits that abstain have sign 0 (plus). Any number of ballots from 1 to 65,535, words of equal count.
void vote_with_abstentions(Place& place, std::span<const OpenBallot> ballots, const TieRule& rule,
                           View<std::uint32_t> signs, View<std::uint32_t> abstains);

}  // namespace laconic
