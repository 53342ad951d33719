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
  Stream stream;                 ///< for random ties: purpose vote_ties, shared rank, the tensor
  std::uint64_t first_word = 0;  ///< index in the tensor of the first word voted on
};

/// Majority of packed signs, bit by bit: out is minus where more than half of the ballots are; where exactly half are,
/// as the rule says (random: bit draw32(stream, word)). Ballots are words of equal count, one view a worker, at least
/// one. out may be one of the ballots. Counters are bit-sliced: O(words · workers) word operations, never unpacked.
void vote(Place& place, std::span<const View<const std::uint32_t>> ballots, const TieRule& rule,
          View<std::uint32_t> out);

}  // namespace laconic
