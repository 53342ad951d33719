// The twins of kernels/vote against the reference: majorities, ties by draw, abstentions.

#include "cuda/fixture.h"
#include "kernels/vote/abstain.h"
#include "kernels/vote/vote.h"

namespace laconic::test {
namespace {

using Words = std::vector<std::uint32_t>;

/// Words of random bits.
Words random_words(std::size_t n, std::uint32_t rank) {
  const RandomStream stream{.seed = 77, .rank = rank};
  Words words(n);
  for (std::size_t i = 0; i < n; ++i) words[i] = draw32(stream, i);
  return words;
}

/// Around the groups of 64 words that share draws, and the 1,024 that a block of threads votes on.
const std::vector<std::size_t> kWordCounts{0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 997, 1023, 1024, 1025, 30'011};

class CudaVote : public Cuda {
 protected:
  static TieRule rule_of(Ties ties, std::uint64_t first_word) {
    const RandomStream stream{.seed = 0x1234'5678'9ABC'DEF0U, .step = 5, .tensor = 7, .purpose = Purpose::vote_ties};
    return {.ties = ties, .stream = stream, .first_word = first_word};
  }

  /// Every third rank votes against the one before it, so that ties are common.
  static Words ballot_of(std::size_t rank, std::size_t n) {
    Words words = random_words(n, static_cast<std::uint32_t>(rank - (rank % 3 == 1 ? 1 : 0)));
    if (rank % 3 == 1) {
      for (std::uint32_t& word : words) word = ~word;
    }
    return words;
  }

  void expect_vote(std::size_t n, std::size_t ranks, const TieRule& rule) {
    std::vector<Words> ballots;
    std::vector<std::unique_ptr<DeviceArray<std::uint32_t>>> device_ballots;
    std::vector<View<const std::uint32_t>> device_views;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      ballots.push_back(ballot_of(rank, n));
      device_ballots.push_back(std::make_unique<DeviceArray<std::uint32_t>>(ballots.back(), rank % 5));
      device_views.emplace_back(device_ballots.back()->view());
    }
    const std::vector<View<const std::uint32_t>> views(ballots.begin(), ballots.end());
    Words out(n);
    const DeviceArray<std::uint32_t> device_out(n, n % 3);
    vote(reference_, views, rule, out);
    vote(*place_, device_views, rule, device_out.view());
    EXPECT_TRUE(same_bits(device_out.values(), out)) << ranks << " ballots of " << n << " from " << rule.first_word;
    EXPECT_TRUE(device_out.intact());
    vote(*place_, device_views, rule, device_ballots.back()->view());  // a ballot may receive the result
    EXPECT_TRUE(same_bits(device_ballots.back()->values(), out)) << ranks << " ballots of " << n;
    EXPECT_TRUE(device_ballots.back()->intact());
  }

  void expect_open_vote(std::size_t n, std::size_t ranks, const TieRule& rule) {
    std::vector<Words> signs;
    std::vector<Words> silent;
    std::vector<std::unique_ptr<DeviceArray<std::uint32_t>>> memory;
    std::vector<OpenBallot> device_ballots;
    const auto on_device = [&](const Words& words) -> View<const std::uint32_t> {
      memory.push_back(std::make_unique<DeviceArray<std::uint32_t>>(words, memory.size() % 5));
      return memory.back()->view();
    };
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      signs.push_back(ballot_of(rank, n));
      silent.push_back(random_words(n, static_cast<std::uint32_t>(1000 + rank)));
      for (std::size_t i = 0; i < n; i += 5) silent.back()[i] = 0xFFFF'FFFFU;  // words where nobody votes
      device_ballots.push_back({on_device(signs.back()), on_device(silent.back())});
    }
    std::vector<OpenBallot> ballots;
    for (std::size_t rank = 0; rank < ranks; ++rank) ballots.push_back({signs[rank], silent[rank]});
    Words out(n);
    Words abstains(n);
    const DeviceArray<std::uint32_t> device_out(n, n % 3);
    const DeviceArray<std::uint32_t> device_abstains(n, n % 7);
    vote_with_abstentions(reference_, ballots, rule, out, abstains);
    vote_with_abstentions(*place_, device_ballots, rule, device_out.view(), device_abstains.view());
    EXPECT_TRUE(same_bits(device_out.values(), out)) << ranks << " ballots of " << n << " from " << rule.first_word;
    EXPECT_TRUE(same_bits(device_abstains.values(), abstains)) << ranks << " ballots of " << n;
    EXPECT_TRUE(device_out.intact() && device_abstains.intact());
  }
};

TEST_F(CudaVote, EverySizeAndStart) {
  for (const std::size_t n : kWordCounts) {
    for (const std::uint64_t first_word : {0ULL, 1ULL, 17ULL, 63ULL, 64ULL, (1ULL << 36) + 5}) {
      if (left_out()) continue;
      expect_vote(n, 4, rule_of(Ties::random, first_word));
      expect_open_vote(n, 4, rule_of(Ties::random, first_word));
    }
    expect_vote(n, 4, rule_of(Ties::plus, 3));
    expect_open_vote(n, 4, rule_of(Ties::plus, 3));
  }
}

TEST_F(CudaVote, AnyNumberOfBallots) {
  for (const std::size_t ranks : {1U, 2U, 3U, 7U, 8U, 15U, 16U, 17U, 64U, 65U, 255U, 256U, 300U}) {
    for (const Ties ties : {Ties::random, Ties::plus}) {
      expect_vote(131, ranks, rule_of(ties, 9));
      expect_open_vote(131, ranks, rule_of(ties, 9));
    }
  }
}

TEST_F(CudaVote, MarginsAndSilence) {
  for (const std::size_t n : kSizes) {
    for (const float extra : kExtras) {
      const auto values = awkward_values(n, 1, extra);
      const DeviceArray<float> device(values, 1);
      std::vector<float> margins(n);
      const DeviceArray<float> device_margins(n, n % 5);
      abstention_margins(reference_, values, 0.7F, margins);
      abstention_margins(*place_, device.view(), 0.7F, device_margins.view());
      EXPECT_TRUE(same_numbers(device_margins.values(), margins)) << n;
      EXPECT_TRUE(device_margins.intact());
      auto vote = awkward_values(n, 2, extra);
      const DeviceArray<float> device_vote(vote, 2);
      silence(reference_, margins, vote);
      silence(*place_, device_margins.view(), device_vote.view());
      EXPECT_TRUE(same_bits(device_vote.values(), vote)) << n;
      EXPECT_TRUE(device_vote.intact());
    }
  }
}

}  // namespace
}  // namespace laconic::test
