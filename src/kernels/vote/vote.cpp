#include "kernels/vote/vote.h"

#include <string>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "kernels/cuda.h"
#include "kernels/simd.h"
#include "kernels/vote/loops.h"

namespace laconic {
namespace {

/// Threads meet where a new group of random words begins, if the view does.
constexpr std::size_t kCut = 64;

}  // namespace

void vote(Place& place, std::span<const View<const std::uint32_t>> ballots, const TieRule& rule,
          View<std::uint32_t> out) {
  vote(place, ballots, rule, just(VoteSlice{0, out.size(), rule.stream.tensor, rule.first_word}), out);
}

void vote(Place& place, std::span<const View<const std::uint32_t>> ballots, const TieRule& rule,
          Each<VoteSlice> slices, View<std::uint32_t> out) {
  if (ballots.empty() || ballots.size() > kMostBallots) {
    throw InvalidConfig("a vote takes 1.." + std::to_string(kMostBallots) + " ballots, got " +
                        std::to_string(ballots.size()) + ": pass one view per worker");
  }
  require_same_device("out", out.device(), place.device());
  for (const auto& ballot : ballots) {
    require_same_device("ballot", ballot.device(), place.device());
    require_size("ballot", ballot.size(), out.size());
  }
  const auto checked = [&](const auto& body) {
    slices([&](const VoteSlice& slice) {
      require_at_least("out", out.size(), slice.word + slice.words);
      body(slice);
    });
  };
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(vote, place, ballots, rule, checked, out);
  const Touch touch(place);
  checked([&](const VoteSlice& slice) {
    const TieRule there = rule_in_ballots(rule, slice);
    parallel_ranges(place.pool(), slice.words, kCut, [&](Range range) {
      const Range words{slice.word + range.begin, slice.word + range.end};
      LACONIC_DISPATCH(place.simd(), vote, ballots, words, there, out.data());
    });
  });
}

}  // namespace laconic
