#include "kernels/vote/abstain.h"

#include <array>
#include <cmath>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "kernels/cuda.h"
#include "kernels/vote/loops.h"

namespace laconic {
namespace {

/// Thirty-two counters side by side, one bit of each in a word: adding a word of ones and zeros is a chain of half adders.
class Counters {
 public:
  void add(std::uint32_t bits) {
    for (std::size_t digit = 0; bits != 0; ++digit) {
      const std::uint32_t carry = digits_[digit] & bits;
      digits_[digit] ^= bits;
      bits = carry;
    }
  }

  /// Bits where these counters are above the others, and where they are equal.
  std::uint32_t above(const Counters& other, std::uint32_t& equal) const {
    std::uint32_t greater = 0;
    equal = ~std::uint32_t{0};
    for (std::size_t digit = digits_.size(); digit-- > 0;) {
      greater |= equal & digits_[digit] & ~other.digits_[digit];
      equal &= ~(digits_[digit] ^ other.digits_[digit]);
    }
    return greater;
  }

 private:
  std::array<std::uint32_t, 16> digits_{};
};

/// One word of the result.
void count_ballots(std::span<const OpenBallot> ballots, const TieRule& rule, std::size_t word,
                   View<std::uint32_t> signs, View<std::uint32_t> abstains) {
  Counters plus;
  Counters minus;
  std::uint32_t voted = 0;
  for (const OpenBallot& ballot : ballots) {
    const std::uint32_t votes = ~ballot.abstains[word];
    plus.add(votes & ~ballot.signs[word]);
    minus.add(votes & ballot.signs[word]);
    voted |= votes;
  }
  std::uint32_t tied = 0;
  const std::uint32_t majority = minus.above(plus, tied);
  const std::uint32_t fallen =
      rule.ties == Ties::random ? draw32(rule.stream, rule.first_word + word) : std::uint32_t{0};
  signs[word] = (majority | (tied & fallen)) & voted;
  abstains[word] = ~voted;
}

}  // namespace

void abstention_margins(Place& place, View<const float> values, float least, View<float> margins) {
  require_same_device("values", values.device(), place.device());
  require_same_device("margins", margins.device(), place.device());
  require_size("margins", margins.size(), values.size());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(abstention_margins, place, values, least, margins);
  const Touch touch(place);
  parallel_ranges(place.pool(), values.size(), 16, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) margins[i] = std::fabs(values[i]) - least;
  });
}

void silence(Place& place, View<const float> nobody, View<float> vote) {
  require_same_device("nobody", nobody.device(), place.device());
  require_same_device("vote", vote.device(), place.device());
  require_size("vote", vote.size(), nobody.size());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(silence, place, nobody, vote);
  const Touch touch(place);
  parallel_ranges(place.pool(), vote.size(), 16, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) vote[i] = nobody[i] < 0.0F ? 0.0F : vote[i];
  });
}

void vote_with_abstentions(Place& place, std::span<const OpenBallot> ballots, const TieRule& rule,
                           View<std::uint32_t> signs, View<std::uint32_t> abstains) {
  const VoteSlice whole{0, signs.size(), rule.stream.tensor, rule.first_word};
  vote_with_abstentions(place, ballots, rule, just(whole), signs, abstains);
}

void vote_with_abstentions(Place& place, std::span<const OpenBallot> ballots, const TieRule& rule,
                           Each<VoteSlice> slices, View<std::uint32_t> signs, View<std::uint32_t> abstains) {
  LACONIC_CHECK(ballots.size() > 0U);
  LACONIC_CHECK(ballots.size() <= kMostBallots);
  require_same_device("signs", signs.device(), place.device());
  require_same_device("abstains", abstains.device(), place.device());
  require_size("abstains", abstains.size(), signs.size());
  for (const OpenBallot& ballot : ballots) {
    require_same_device("ballot.signs", ballot.signs.device(), place.device());
    require_same_device("ballot.abstains", ballot.abstains.device(), place.device());
    require_size("ballot.signs", ballot.signs.size(), signs.size());
    require_size("ballot.abstains", ballot.abstains.size(), signs.size());
  }
  const auto checked = [&](const auto& body) {
    slices([&](const VoteSlice& slice) {
      require_at_least("signs", signs.size(), slice.word + slice.words);
      body(slice);
    });
  };
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(vote_with_abstentions, place, ballots, rule, checked, signs, abstains);
  }
  const Touch touch(place);
  checked([&](const VoteSlice& slice) {
    const TieRule there = rule_in_ballots(rule, slice);
    parallel_ranges(place.pool(), slice.words, 16, [&](Range range) {
      for (std::size_t word = slice.word + range.begin; word < slice.word + range.end; ++word) {
        count_ballots(ballots, there, word, signs, abstains);
      }
    });
  });
}

}  // namespace laconic
