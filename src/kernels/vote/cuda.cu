#include "base/cuda/list.h"
#include "base/cuda/parts.h"
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

/// Words of a group of draws that lie before a slice.
__host__ __device__ std::uint64_t words_past(const VoteSlice& slice) { return slice.first_word % kDrawGroup; }

/// A thread votes on the words that share a block of draws: sixteen apart in a group of 64 words of the tensor. All
/// ballots of a word are read before it is written, so `out` may be one of them.
template <int kPlanes, class List>
__global__ void vote_kernel(const __grid_constant__ Parts<VoteSlice> slices, const __grid_constant__ List ballots,
                            unsigned ballot_count, TieRule rule, bool can_tie, std::uint32_t* out) {
  const unsigned number = slices.of_block();
  const VoteSlice slice = slices.items[number];
  const std::uint64_t past = words_past(slice);
  const std::uint64_t thread = std::uint64_t{slices.block_in(number)} * kThreads + threadIdx.x;
  const std::uint64_t group = thread / kDrawLanes;
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
    return at >= past && at - past < slice.words;
  };
  for (unsigned ballot = 0; ballot < ballot_count; ++ballot) {
    const std::uint32_t* words = ballots[ballot] + slice.word;
#pragma unroll
    for (unsigned row = 0; row < kDrawRows; ++row) {
      if (is_inside(row)) count(planes[row], words[first + row * kDrawLanes - past]);
    }
  }
  PhiloxBlock coins{};
  if (can_tie) {
    const std::uint64_t block = (slice.first_word - past) / kDrawGroup * kDrawLanes + thread;  // as draw32 has it
    coins = rule.stream.of_tensor(slice.tensor).block(block);
  }
#pragma unroll
  for (unsigned row = 0; row < kDrawRows; ++row) {
    std::uint32_t tied = coins[row];
#pragma unroll
    for (int p = 0; p + 1 < kPlanes; ++p) tied &= planes[row][p];
    if (is_inside(row)) out[slice.word + first + row * kDrawLanes - past] = planes[row][kPlanes - 1] | tied;
  }
}

template <int kPlanes>
void launch_vote(Place& place, Ballots ballots, const TieRule& rule, Each<VoteSlice> slices, View<std::uint32_t> out) {
  const bool can_tie = rule.ties == Ties::random && ballots.size() % 2 == 0;
  const auto ballot_at = [&](std::size_t i) { return ballots[i].data(); };
  with_list<const std::uint32_t*>(place, ballots.size(), ballot_at, [&](const auto& list) {
    const Launch launch(place, "vote");
    const auto give = [&](const Parts<VoteSlice>& parts, unsigned blocks) {
      vote_kernel<kPlanes><<<blocks, kThreads, 0, launch.stream()>>>(
          parts, list, static_cast<unsigned>(ballots.size()), rule, can_tie, out.data());
      launch.check();
    };
    PartBatches<VoteSlice, decltype(give)> batches(give);
    slices([&](const VoteSlice& slice) {
      if (slice.words == 0) return;
      const std::uint64_t groups = (words_past(slice) + slice.words + kDrawGroup - 1) / kDrawGroup;
      batches.add(slice, blocks_for(groups * kDrawLanes, 1));
    });
    batches.finish();
  });
}

struct BallotPointers {
  const std::uint32_t* signs;
  const std::uint32_t* abstains;
};

template <int kPlanes, class List>
__global__ void open_vote_kernel(const __grid_constant__ Parts<VoteSlice> slices, const __grid_constant__ List ballots,
                                 unsigned ballot_count, TieRule rule, std::uint32_t* signs, std::uint32_t* abstains) {
  const unsigned number = slices.of_block();
  const VoteSlice slice = slices.items[number];
  const std::uint64_t in_slice = std::uint64_t{slices.block_in(number)} * kThreads + threadIdx.x;
  if (in_slice >= slice.words) return;
  const std::uint64_t word = slice.word + in_slice;
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
  const std::uint32_t fallen =
      rule.ties == Ties::random ? draw32(rule.stream.of_tensor(slice.tensor), slice.first_word + in_slice) : 0U;
  signs[word] = (majority | (tied & fallen)) & voted;
  abstains[word] = ~voted;
}

template <int kPlanes>
void launch_open_vote(Place& place, std::span<const OpenBallot> ballots, const TieRule& rule, Each<VoteSlice> slices,
                      View<std::uint32_t> signs, View<std::uint32_t> abstains) {
  const auto ballot_at = [&](std::size_t i) {
    return BallotPointers{ballots[i].signs.data(), ballots[i].abstains.data()};
  };
  with_list<BallotPointers>(place, ballots.size(), ballot_at, [&](const auto& list) {
    const Launch launch(place, "vote_with_abstentions");
    const auto give = [&](const Parts<VoteSlice>& parts, unsigned blocks) {
      open_vote_kernel<kPlanes><<<blocks, kThreads, 0, launch.stream()>>>(
          parts, list, static_cast<unsigned>(ballots.size()), rule, signs.data(), abstains.data());
      launch.check();
    };
    PartBatches<VoteSlice, decltype(give)> batches(give);
    slices([&](const VoteSlice& slice) { batches.add(slice, blocks_for(slice.words, 1)); });
    batches.finish();
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

void vote(Place& place, Ballots ballots, const TieRule& rule, Each<VoteSlice> slices, View<std::uint32_t> out) {
  if (ballots.size() < 16) return launch_vote<4>(place, ballots, rule, slices, out);
  if (ballots.size() < 256) return launch_vote<8>(place, ballots, rule, slices, out);
  launch_vote<16>(place, ballots, rule, slices, out);
}

void abstention_margins(Place& place, View<const float> values, float least, View<float> margins) {
  launch_over(place, "abstention_margins", values.size(), margins_kernel, values.data(), least, margins.data(),
              values.size());
}

void silence(Place& place, View<const float> nobody, View<float> vote) {
  launch_over(place, "silence", vote.size(), silence_kernel, nobody.data(), vote.data(), vote.size());
}

void vote_with_abstentions(Place& place, std::span<const OpenBallot> ballots, const TieRule& rule,
                           Each<VoteSlice> slices, View<std::uint32_t> signs, View<std::uint32_t> abstains) {
  if (ballots.size() < 16) return launch_open_vote<4>(place, ballots, rule, slices, signs, abstains);
  if (ballots.size() < 256) return launch_open_vote<8>(place, ballots, rule, slices, signs, abstains);
  launch_open_vote<16>(place, ballots, rule, slices, signs, abstains);
}

}  // namespace laconic::cuda
