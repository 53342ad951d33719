#include <algorithm>
#include <array>

#include "kernels/clones.h"
#include "kernels/philox_lanes.h"
#include "kernels/vote/loops.h"

namespace laconic::portable {
namespace {

constexpr std::size_t kGroup = kDrawGroup;  // 4 rows of 16 lanes

/// Adds a and b to the plane; returns the carries: bit by bit, what two or three of the three say.
LACONIC_INLINE std::uint32_t carry_save(std::uint32_t& plane, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t either = plane ^ a;
  const std::uint32_t carry = (plane & a) | (either & b);
  plane = either ^ b;
  return carry;
}

/// Bit-sliced counters of a group's words: planes[p] holds bit p of 32 counters a word.
template <int kPlanes>
struct Counters {
  std::array<std::array<std::uint32_t, kGroup>, kPlanes> planes;

  /// They start so that the top plane is set once more than half of `ballots` were counted, and all others are ones and
  /// the top is not where it was exactly half.
  LACONIC_INLINE explicit Counters(std::size_t ballots) {
    const std::size_t start = (std::size_t{1} << (kPlanes - 1)) - 1 - ballots / 2;
    for (int p = 0; p < kPlanes; ++p) planes[p].fill((start >> p & 1) != 0 ? 0xFFFF'FFFFU : 0U);
  }

  LACONIC_INLINE void add_carry(int first, std::size_t word, std::uint32_t carry) {
#pragma GCC unroll 16
    for (int p = first; p < kPlanes; ++p) {
      const std::uint32_t sum = planes[p][word] ^ carry;
      carry &= planes[p][word];
      planes[p][word] = sum;
    }
  }

  LACONIC_INLINE void add_one(const std::uint32_t* a) {
    for (std::size_t word = 0; word < kGroup; ++word) add_carry(0, word, a[word]);
  }

  LACONIC_INLINE void add_eight(const std::array<const std::uint32_t*, 8>& ballots) {
    const auto [a, b, c, d, e, f, g, h] = ballots;
    for (std::size_t word = 0; word < kGroup; ++word) {
      std::uint32_t ones = planes[0][word];
      std::uint32_t twos = planes[1][word];
      std::uint32_t fours = planes[2][word];
      const std::uint32_t ab = carry_save(ones, a[word], b[word]);
      const std::uint32_t cd = carry_save(ones, c[word], d[word]);
      const std::uint32_t abcd = carry_save(twos, ab, cd);
      const std::uint32_t ef = carry_save(ones, e[word], f[word]);
      const std::uint32_t gh = carry_save(ones, g[word], h[word]);
      const std::uint32_t efgh = carry_save(twos, ef, gh);
      const std::uint32_t all = carry_save(fours, abcd, efgh);
      planes[0][word] = ones;
      planes[1][word] = twos;
      planes[2][word] = fours;
      add_carry(3, word, all);
    }
  }

  LACONIC_INLINE void finish(const std::uint32_t* coins, std::uint32_t* out) const {
    for (std::size_t word = 0; word < kGroup; ++word) {
      std::uint32_t tied = coins[word];
#pragma GCC unroll 16
      for (int p = 0; p + 1 < kPlanes; ++p) tied &= planes[p][word];
      out[word] = planes[kPlanes - 1][word] | tied;
    }
  }
};

/// A range of whole groups of draws.
template <int kPlanes>
LACONIC_INLINE void vote_groups(const Ballots& ballots, Range range, const TieRule& rule, std::uint32_t* out) {
  const bool can_tie = rule.ties == Ties::random && ballots.size() % 2 == 0;
  PhiloxLanes coins{};  // row after row, as the words stand
  for (std::size_t begin = range.begin; begin < range.end; begin += kGroup) {
    Counters<kPlanes> counters(ballots.size());
    std::size_t i = 0;
    for (; i + 8 <= ballots.size(); i += 8) {
      std::array<const std::uint32_t*, 8> eight;
      for (std::size_t j = 0; j < eight.size(); ++j) eight[j] = ballots[i + j].data() + begin;
      counters.add_eight(eight);
    }
    for (; i < ballots.size(); ++i) counters.add_one(ballots[i].data() + begin);
    if (can_tie) draw_lanes(rule.stream, (rule.first_word + begin) / kGroup * kPhiloxLanes, coins);
    counters.finish(coins[0].data(), out + begin);
  }
}

}  // namespace

void vote(SimdLevel level, Ballots ballots, Range range, const TieRule& rule, std::uint32_t* out) {
  const Range groups = vote_on_ends(ballots, range, rule, out);
  if (ballots.size() < 16) {
    Clones<vote_groups<4>>::run(level, ballots, groups, rule, out);
  } else if (ballots.size() < 256) {
    Clones<vote_groups<8>>::run(level, ballots, groups, rule, out);
  } else {
    Clones<vote_groups<16>>::run(level, ballots, groups, rule, out);
  }
}

}  // namespace laconic::portable
