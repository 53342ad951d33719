#include <algorithm>
#include <bit>

#include "kernels/vote/loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vote/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/philox_simd-inl.h"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR  // has no lanes to multiply in pairs

void vote_small(const Ballots& ballots, Range range, const TieRule& rule, std::uint32_t* out) {
  reference::vote(ballots, range, rule, out);
}
void vote_medium(const Ballots& ballots, Range range, const TieRule& rule, std::uint32_t* out) {
  reference::vote(ballots, range, rule, out);
}
void vote_large(const Ballots& ballots, Range range, const TieRule& rule, std::uint32_t* out) {
  reference::vote(ballots, range, rule, out);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using Words = HWY_CAPPED(std::uint32_t, 16);
using V = hn::Vec<Words>;

constexpr std::size_t kDrawGroup = 64;  // words of a group of draws: 4 rows of 16 lanes
constexpr std::size_t kDrawLanes = 16;

/// Bit by bit, what two or three of the three say.
HWY_INLINE V majority(V a, V b, V c) {
#if HWY_TARGET == HWY_AVX3
  return V{_mm512_ternarylogic_epi32(a.raw, b.raw, c.raw, 0xE8)};
#else
  return hn::OrAnd(hn::And(a, b), hn::Xor(a, b), c);
#endif
}

/// Adds a and b to the plane; returns the carries.
HWY_INLINE V carry_save(V& plane, V a, V b) {
  const V carry = majority(plane, a, b);
  plane = hn::Xor3(plane, a, b);
  return carry;
}

/// Bit-sliced counters: plane p holds bit p of 32 counters per lane.
template <int kPlanes>
struct Counters {
  V planes[kPlanes];

  /// They start so that the top plane is set once more than half of `ballots` were counted, and all others are ones
  /// and the top is not where it was exactly half.
  HWY_INLINE explicit Counters(std::size_t ballots) {
    const Words d;
    const std::size_t start = (std::size_t{1} << (kPlanes - 1)) - 1 - ballots / 2;
    for (int p = 0; p < kPlanes; ++p) {
      planes[p] = hn::Set(d, (start >> p & 1) != 0 ? 0xFFFF'FFFFU : 0U);
    }
  }

  template <int kFirst>
  HWY_INLINE void add_carry(V carry) {
    for (int p = kFirst; p < kPlanes; ++p) {
      const V sum = hn::Xor(planes[p], carry);
      carry = hn::And(planes[p], carry);
      planes[p] = sum;
    }
  }

  HWY_INLINE V add_two(V a, V b) { return carry_save(planes[0], a, b); }
  HWY_INLINE V add_four(V a, V b, V c, V d) {
    const V first = add_two(a, b);
    return carry_save(planes[1], first, add_two(c, d));
  }
  HWY_INLINE V add_eight(V a, V b, V c, V d, V e, V f, V g, V h) {
    const V first = add_four(a, b, c, d);
    return carry_save(planes[2], first, add_four(e, f, g, h));
  }

  HWY_INLINE V top() const { return planes[kPlanes - 1]; }
  HWY_INLINE V all_below_top() const {
    V all = planes[0];
    for (int p = 1; p + 1 < kPlanes; ++p) all = hn::And(all, planes[p]);
    return all;
  }
};

/// One vector of words of every ballot.
template <int kPlanes>
HWY_INLINE V tally(const Ballots& ballots, std::size_t word, V coins) {
  const Words d;
  const auto load = [&](std::size_t ballot) HWY_ATTR { return hn::LoadU(d, ballots[ballot].data() + word); };
  Counters<kPlanes> counters(ballots.size());
  std::size_t i = 0;
  for (; i + 8 <= ballots.size(); i += 8) {
    counters.template add_carry<3>(counters.add_eight(load(i), load(i + 1), load(i + 2), load(i + 3), load(i + 4),
                                                      load(i + 5), load(i + 6), load(i + 7)));
  }
  if (ballots.size() - i >= 4) {
    counters.template add_carry<2>(counters.add_four(load(i), load(i + 1), load(i + 2), load(i + 3)));
    i += 4;
  }
  if (ballots.size() - i >= 2) {
    counters.template add_carry<1>(counters.add_two(load(i), load(i + 1)));
    i += 2;
  }
  if (i < ballots.size()) counters.template add_carry<0>(load(i));
  return hn::OrAnd(counters.top(), counters.all_below_top(), coins);
}

template <int kPlanes>
void vote_random(const Ballots& ballots, Range range, const TieRule& rule, std::uint32_t* out) {
  const Words d;
  const std::size_t lanes = hn::Lanes(d);
  const std::uint64_t first_block = (rule.first_word + range.begin) / kDrawGroup * kDrawLanes;
  PhiloxVector<Words> philox(rule.stream, first_block);
  for (std::size_t group = 0; group < range.size() / kDrawGroup; ++group) {
    const std::uint64_t block = first_block + group * kDrawLanes;
    if (!philox.covers(block)) philox = PhiloxVector<Words>(rule.stream, block);
    for (std::size_t lane = 0; lane < kDrawLanes; lane += lanes) {
      const std::size_t word = range.begin + group * kDrawGroup + lane;
      V coins0, coins1, coins2, coins3;
      philox.draw(block + lane, coins0, coins1, coins2, coins3);
      hn::StoreU(tally<kPlanes>(ballots, word, coins0), d, out + word);
      hn::StoreU(tally<kPlanes>(ballots, word + 16, coins1), d, out + word + 16);
      hn::StoreU(tally<kPlanes>(ballots, word + 32, coins2), d, out + word + 32);
      hn::StoreU(tally<kPlanes>(ballots, word + 48, coins3), d, out + word + 48);
    }
  }
}

template <int kPlanes>
void vote_plain(const Ballots& ballots, Range range, std::uint32_t* out) {
  const Words d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t word = range.begin; word < range.end; word += lanes) {
    hn::StoreU(tally<kPlanes>(ballots, word, hn::Zero(d)), d, out + word);
  }
}

/// A range of whole groups of draws.
template <int kPlanes>
void vote_groups(const Ballots& ballots, Range range, const TieRule& rule, std::uint32_t* out) {
  if (rule.ties == Ties::random && ballots.size() % 2 == 0) {
    vote_random<kPlanes>(ballots, range, rule, out);
  } else {
    vote_plain<kPlanes>(ballots, range, out);
  }
}

void vote_small(const Ballots& ballots, Range range, const TieRule& rule, std::uint32_t* out) {
  vote_groups<4>(ballots, range, rule, out);
}
void vote_medium(const Ballots& ballots, Range range, const TieRule& rule, std::uint32_t* out) {
  vote_groups<8>(ballots, range, rule, out);
}
void vote_large(const Ballots& ballots, Range range, const TieRule& rule, std::uint32_t* out) {
  vote_groups<16>(ballots, range, rule, out);
}

#endif

}  // namespace
}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::simd {

void vote(SimdLevel level, Ballots ballots, Range range, const TieRule& rule, std::uint32_t* out) {
  const Range groups = vote_on_ends(ballots, range, rule, out);
  if (ballots.size() < 16) {
    LACONIC_SIMD_CALL(level, vote_small)(ballots, groups, rule, out);
  } else if (ballots.size() < 256) {
    LACONIC_SIMD_CALL(level, vote_medium)(ballots, groups, rule, out);
  } else {
    LACONIC_SIMD_CALL(level, vote_large)(ballots, groups, rule, out);
  }
}

}  // namespace laconic::simd
#endif
