#include "base/cuda/launch.h"
#include "base/cuda/list.h"
#include "kernels/vote/loops.h"

// Twins of kernels/vote. Counters are bit-sliced, as in the vector loops: planes[p] holds bit p of 32 counters.

namespace laconic::cuda {
namespace {

constexpr unsigned kDrawLanes = 16;                       ///< blocks of Philox that serve a group of draws
constexpr unsigned kDrawRows = kDrawGroup / kDrawLanes;  ///< words that share one

/// Adds a one or a zero to each of 32 counters.
template <int kPlanes>
__device__ void count(std::uint32_t (&planes)[kPlanes], std::uint32_t bits) {
#pragma unroll
  for (int p = 0; p < kPlanes; ++p) {
    const std::uint32_t sum = planes[p] ^ bits;
    bits &= planes[p];
    planes[p] = sum;
  }
}

/// A thread votes on the words that share a block of draws: sixteen apart in a group of 64 words of the tensor. `past`:
/// words of the first group that lie before the view. All ballots of a word are read before it is written, so `out` may
/// be one of them.
template <int kPlanes, class List>
__global__ void vote_kernel(const __grid_constant__ List ballots, unsigned ballot_count, TieRule rule, bool can_tie,
                            std::uint64_t past, std::uint32_t* out, std::uint64_t n) {
  const std::uint64_t group = thread_index() / kDrawLanes;
  const std::uint64_t first = group * kDrawGroup + threadIdx.x % kDrawLanes;  // counted from the first group's start
  // They start so that the top plane is set once more than half were counted, and all others are ones and the top is
  // not where it was exactly half.
  const std::uint32_t start = (1U << (kPlanes - 1)) - 1 - ballot_count / 2;
  std::uint32_t planes[kDrawRows][kPlanes];
#pragma unroll
  for (unsigned row = 0; row < kDrawRows; ++row) {
#pragma unroll
    for (int p = 0; p < kPlanes; ++p) planes[row][p] = (start >> p & 1U) != 0 ? 0xFFFF'FFFFU : 0U;
  }
  const auto is_inside = [=](unsigned row) {
    const std::uint64_t at = first + row * kDrawLanes;
    return at >= past && at - past < n;
  };
  for (unsigned ballot = 0; ballot < ballot_count; ++ballot) {
    const std::uint32_t* words = ballots[ballot];
#pragma unroll
    for (unsigned row = 0; row < kDrawRows; ++row) {
      if (is_inside(row)) count(planes[row], words[first + row * kDrawLanes - past]);
    }
  }
  PhiloxBlock coins{};
  if (can_tie) coins = rule.stream.block((rule.first_word - past) / kDrawGroup * kDrawLanes + group * kDrawLanes +
                                         threadIdx.x % kDrawLanes);  // as draw32 has it
#pragma unroll
  for (unsigned row = 0; row < kDrawRows; ++row) {
    std::uint32_t tied = coins[row];
#pragma unroll
    for (int p = 0; p + 1 < kPlanes; ++p) tied &= planes[row][p];
    if (is_inside(row)) out[first + row * kDrawLanes - past] = planes[row][kPlanes - 1] | tied;
  }
}

template <int kPlanes>
void launch_vote(Place& place, Ballots ballots, const TieRule& rule, View<std::uint32_t> out) {
  const bool can_tie = rule.ties == Ties::random && ballots.size() % 2 == 0;
  const std::uint64_t past = rule.first_word % kDrawGroup;
  const std::uint64_t groups = (past + out.size() + kDrawGroup - 1) / kDrawGroup;
  const auto ballot_at = [&](std::size_t i) { return ballots[i].data(); };
  with_list<const std::uint32_t*>(place, ballots.size(), ballot_at, [&](const auto& list) {
    const Launch launch(place, "vote");
    vote_kernel<kPlanes><<<blocks_for(groups * kDrawLanes, 1), kThreads, 0, launch.stream()>>>(
        list, static_cast<unsigned>(ballots.size()), rule, can_tie, past, out.data(), out.size());
    launch.check();
  });
}

struct BallotPointers {
  const std::uint32_t* signs;
  const std::uint32_t* abstains;
};

template <int kPlanes, class List>
__global__ void open_vote_kernel(const __grid_constant__ List ballots, unsigned ballot_count, TieRule rule,
                                 std::uint32_t* signs, std::uint32_t* abstains, std::uint64_t n) {
  const std::uint64_t word = thread_index();
  if (word >= n) return;
  std::uint32_t plus[kPlanes] = {};
  std::uint32_t minus[kPlanes] = {};
  std::uint32_t voted = 0;
#pragma unroll 4
  for (unsigned i = 0; i < ballot_count; ++i) {
    const BallotPointers ballot = ballots[i];
    const std::uint32_t votes = ~ballot.abstains[word];
    const std::uint32_t sign = ballot.signs[word];
    count(plus, votes & ~sign);
    count(minus, votes & sign);
    voted |= votes;
  }
  std::uint32_t majority = 0;
  std::uint32_t tied = 0xFFFF'FFFFU;
#pragma unroll
  for (int p = kPlanes - 1; p >= 0; --p) {
    majority |= tied & minus[p] & ~plus[p];
    tied &= ~(minus[p] ^ plus[p]);
  }
  const std::uint32_t fallen = rule.ties == Ties::random ? draw32(rule.stream, rule.first_word + word) : 0U;
  signs[word] = (majority | (tied & fallen)) & voted;
  abstains[word] = ~voted;
}

template <int kPlanes>
void launch_open_vote(Place& place, std::span<const OpenBallot> ballots, const TieRule& rule, View<std::uint32_t> signs,
                      View<std::uint32_t> abstains) {
  const auto ballot_at = [&](std::size_t i) {
    return BallotPointers{ballots[i].signs.data(), ballots[i].abstains.data()};
  };
  with_list<BallotPointers>(place, ballots.size(), ballot_at, [&](const auto& list) {
    const Launch launch(place, "vote_with_abstentions");
    open_vote_kernel<kPlanes><<<blocks_for(signs.size(), 1), kThreads, 0, launch.stream()>>>(
        list, static_cast<unsigned>(ballots.size()), rule, signs.data(), abstains.data(), signs.size());
    launch.check();
  });
}

__global__ void margins_kernel(const float* values, float least, float* margins, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return fabsf(values[i]) - least; },
      [=](std::uint64_t i, float margin) { margins[i] = margin; });
}

__global__ void silence_kernel(const float* nobody, float* vote, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return nobody[i] < 0.0F ? 0.0F : vote[i]; },
      [=](std::uint64_t i, float heard) { vote[i] = heard; });
}

}  // namespace

void vote(Place& place, Ballots ballots, const TieRule& rule, View<std::uint32_t> out) {
  if (out.empty()) return;
  if (ballots.size() < 16) return launch_vote<4>(place, ballots, rule, out);
  if (ballots.size() < 256) return launch_vote<8>(place, ballots, rule, out);
  launch_vote<16>(place, ballots, rule, out);
}

void abstention_margins(Place& place, View<const float> values, float least, View<float> margins) {
  launch_over(place, "abstention_margins", values.size(), margins_kernel, values.data(), least, margins.data(),
              values.size());
}

void silence(Place& place, View<const float> nobody, View<float> vote) {
  launch_over(place, "silence", vote.size(), silence_kernel, nobody.data(), vote.data(), vote.size());
}

void vote_with_abstentions(Place& place, std::span<const OpenBallot> ballots, const TieRule& rule,
                           View<std::uint32_t> signs, View<std::uint32_t> abstains) {
  if (signs.empty()) return;
  if (ballots.size() < 16) return launch_open_vote<4>(place, ballots, rule, signs, abstains);
  if (ballots.size() < 256) return launch_open_vote<8>(place, ballots, rule, signs, abstains);
  launch_open_vote<16>(place, ballots, rule, signs, abstains);
}

}  // namespace laconic::cuda
