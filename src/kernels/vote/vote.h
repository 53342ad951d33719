#pragma once

#include <cstdint>
#include <span>

#include "base/each.h"
#include "base/philox.h"
#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

enum class Ties : std::uint8_t { random, plus };

/// A part of a tensor among the words of ballots.
struct VoteSlice {
  std::uint64_t word;        ///< its first word in the ballots
  std::uint64_t words;
  std::uint32_t tensor;      ///< its number in the model
  std::uint64_t first_word;  ///< index in the tensor of its first word
};

struct TieRule {
  Ties ties = Ties::random;
  RandomStream stream;                 ///< for random ties: purpose vote_ties, shared rank, the tensor
  std::uint64_t first_word = 0;  ///< index in the tensor of the first word voted on

  TieRule of(const VoteSlice& slice) const { return {ties, stream.of_tensor(slice.tensor), slice.first_word}; }
};

/// Majority of packed signs, bit by bit. A bit of out is minus if more than half of the ballots are; if exactly half
/// are, the rule decides (random: the bit of draw32(stream, word)). There is one ballot per worker, at least one, and
/// all have the same number of words. out may be one of the ballots. Counters are bit-sliced: O(words · workers) word
/// operations, without unpacking.
void vote(Place& place, std::span<const View<const std::uint32_t>> ballots, const TieRule& rule,
          View<std::uint32_t> out);

/// The same for slices of several tensors, on a device in one launch. `rule` has the stream of all of them but for the
/// tensor. Words outside of all slices stay as they are.
void vote(Place& place, std::span<const View<const std::uint32_t>> ballots, const TieRule& rule,
          Each<VoteSlice> slices, View<std::uint32_t> out);

}  // namespace laconic
