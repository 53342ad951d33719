#pragma once

#include <cstdint>
#include <span>

#include "base/philox.h"
#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

enum class Ties : std::uint8_t { random, plus };

struct TieRule {
  Ties ties = Ties::random;
  RandomStream stream;                 ///< for random ties: purpose vote_ties, shared rank, the tensor
  std::uint64_t first_word = 0;  ///< index in the tensor of the first word voted on
};

/// Majority of packed signs, bit by bit. A bit of out is minus if more than half of the ballots are; if exactly half
/// are, the rule decides (random: the bit of draw32(stream, word)). There is one ballot per worker, at least one, and
/// all have the same number of words. out may be one of the ballots. Counters are bit-sliced: O(words · workers) word
/// operations, without unpacking.
void vote(Place& place, std::span<const View<const std::uint32_t>> ballots, const TieRule& rule,
          View<std::uint32_t> out);

}  // namespace laconic
