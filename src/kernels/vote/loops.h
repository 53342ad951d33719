#pragma once

#include <span>

#include "base/thread_pool.h"
#include "kernels/vote/vote.h"

// The loops behind kernels/vote: the words of one range of all ballots, at least one and at most kMostBallots.

namespace laconic {

using Ballots = std::span<const View<const std::uint32_t>>;

inline constexpr std::size_t kMostBallots = 65'535;

}  // namespace laconic

namespace laconic::reference {
void vote(Ballots ballots, Range range, const TieRule& rule, std::uint32_t* out);
}  // namespace laconic::reference

namespace laconic::portable {
void vote(SimdLevel level, Ballots ballots, Range range, const TieRule& rule, std::uint32_t* out);
}  // namespace laconic::portable

namespace laconic::simd {
void vote(SimdLevel level, Ballots ballots, Range range, const TieRule& rule, std::uint32_t* out);
}  // namespace laconic::simd
