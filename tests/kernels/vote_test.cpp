#include "kernels/vote/vote.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "laconic/error.h"
#include "support/support.h"

namespace laconic::test {
namespace {

using Words = std::vector<std::uint32_t>;
using Ballot = View<const std::uint32_t>;

std::vector<Words> random_ballots(std::size_t workers, std::size_t words) {
  std::mt19937 engine(static_cast<std::uint32_t>(workers * 1000 + words));
  std::vector<Words> ballots(workers, Words(words));
  for (auto& ballot : ballots) {
    for (auto& word : ballot) word = static_cast<std::uint32_t>(engine());
  }
  return ballots;
}

std::vector<Ballot> views_of(const std::vector<Words>& ballots) { return {ballots.begin(), ballots.end()}; }

TieRule random_rule(std::uint64_t first_word = 0) {
  return {Ties::random, RandomStream{.seed = 99, .step = 4, .tensor = 2, .purpose = Purpose::vote_ties}, first_word};
}

/// The sum of the workers' ±1 as floats, and its sign.
bool modelled_minus(const std::vector<Words>& ballots, std::size_t word, std::size_t bit, const TieRule& rule) {
  float sum = 0.0F;
  for (const auto& ballot : ballots) sum += (ballot[word] >> bit & 1U) != 0 ? -1.0F : 1.0F;
  if (sum != 0.0F) return sum < 0.0F;
  return rule.ties == Ties::random && (draw32(rule.stream, rule.first_word + word) >> bit & 1U) != 0;
}

TEST(Vote, ReferenceCountsLikeASumOfFloats) {
  Place place({.threads = 1, .simd = SimdLevel::reference});
  for (const std::size_t workers : {1UL, 2UL, 3UL, 4UL, 5UL, 8UL, 13UL, 16UL, 31UL, 64UL}) {
    for (const TieRule& rule : {random_rule(17), TieRule{Ties::plus, {}, 0}}) {
      const auto ballots = random_ballots(workers, 37);
      Words out(37);
      vote(place, views_of(ballots), rule, out);
      for (std::size_t word = 0; word < out.size(); ++word) {
        for (std::size_t bit = 0; bit < 32; ++bit) {
          ASSERT_EQ((out[word] >> bit & 1U) != 0, modelled_minus(ballots, word, bit, rule))
              << workers << " workers, word " << word << " bit " << bit;
        }
      }
    }
  }
}

void expect_reference(std::size_t workers, std::size_t words, const TieRule& rule) {
  Place reference({.threads = 1, .simd = SimdLevel::reference});
  const auto ballots = random_ballots(workers, words);
  Words expected(words);
  vote(reference, views_of(ballots), rule, expected);
  for (const SimdLevel level : available_levels()) {
    for (const int threads : {1, 2, 3}) {
      Place place({.threads = threads, .simd = level});
      Guarded<std::uint32_t> out(words, words % 13);
      vote(place, views_of(ballots), rule, out.view());
      ASSERT_TRUE(out.intact());
      ASSERT_EQ(out.values(), expected) << simd_name(level) << ' ' << workers << " workers, " << words
                                        << " words, first " << rule.first_word << " threads " << threads;
    }
  }
}

TEST(Vote, EveryLevelAgreesForAnyNumberOfWorkers) {
  for (std::size_t workers = 1; workers <= 40; ++workers) {
    expect_reference(workers, 333, random_rule());
    expect_reference(workers, 200, {Ties::plus, {}, 0});
  }
  for (const std::size_t workers : {63UL, 64UL, 65UL, 127UL, 128UL, 254UL, 255UL, 256UL, 257UL, 1000UL}) {
    expect_reference(workers, 130, random_rule(64));
  }
}

TEST(Vote, EveryLevelAgreesForAnySizeAndStart) {
  for (const std::size_t words : awkward_sizes()) {
    if (words > 70'000) continue;
    for (const std::uint64_t first : {0ULL, 1ULL, 63ULL, 64ULL, 1000ULL})
      expect_reference(4, words, random_rule(first));
  }
  // The blocks of draws pass 2^32 inside the view.
  expect_reference(2, 1000, random_rule((std::uint64_t{1} << 34) - 320));
  expect_reference(2, 40'000, random_rule((std::uint64_t{1} << 34) - 7));
}

TEST(Vote, TheMostWorkers) {
  // All ballots are views of two words' worth of memory, so that the counters fill up without filling the machine.
  Place reference({.threads = 1, .simd = SimdLevel::reference});
  const auto two = random_ballots(2, 64);
  std::vector<Ballot> ballots;
  for (std::size_t i = 0; i < 65'535; ++i) ballots.emplace_back(two[i * 7 % 5 % 2]);
  for (const std::size_t workers : {65'535UL, 65'534UL}) {
    Words expected(64);
    vote(reference, std::span(ballots).first(workers), random_rule(), expected);
    for (const SimdLevel level : available_levels()) {
      Place place({.threads = 1, .simd = level});
      Words out(64);
      vote(place, std::span(ballots).first(workers), random_rule(), out);
      ASSERT_EQ(out, expected) << simd_name(level);
    }
  }
}

TEST(Vote, ACloseVoteOfManyIsExact) {
  // c minus votes of W for every c around the half: the counters' start must not be off by one.
  for (const std::size_t workers : {2UL, 3UL, 8UL, 15UL, 16UL, 100UL, 255UL, 256UL, 300UL}) {
    for (const SimdLevel level : available_levels()) {
      Place place({.threads = 1, .simd = level});
      for (std::size_t minus = workers / 2 - 1; minus <= workers / 2 + 1; ++minus) {
        std::vector<Words> ballots(workers, Words(64, 0));
        for (std::size_t i = 0; i < minus; ++i) ballots[workers - 1 - i].assign(64, ~0U);
        Words out(64);
        vote(place, views_of(ballots), {Ties::plus, {}, 0}, out);
        ASSERT_EQ(out, Words(64, 2 * minus > workers ? ~0U : 0U))
            << simd_name(level) << ' ' << minus << " of " << workers;
      }
    }
  }
}

TEST(Vote, OutMayBeABallot) {
  for (const SimdLevel level : available_levels()) {
    for (const std::size_t alias : {0UL, 3UL}) {
      Place place({.threads = 2, .simd = level});
      auto ballots = random_ballots(4, 40'000);
      Words expected(40'000);
      vote(place, views_of(ballots), random_rule(), expected);
      vote(place, views_of(ballots), random_rule(), ballots[alias]);
      ASSERT_EQ(ballots[alias], expected) << simd_name(level);
    }
  }
}

TEST(Vote, TiesAreFairAndIndependentOfTheCut) {
  // Two workers that always disagree: every bit is a coin. 32·2^15 coins; 6 standard deviations: a false alarm in
  // 5·10^8.
  const std::size_t n = 1 << 15;
  std::vector<Words> ballots{Words(n, 0x5555'5555U), Words(n, 0xAAAA'AAAAU)};
  for (const SimdLevel level : available_levels()) {
    Place place({.threads = 1, .simd = level});
    Words whole(n);
    vote(place, views_of(ballots), random_rule(), whole);
    double minus = 0;
    for (const auto word : whole) minus += std::popcount(word);
    const double bits = 32.0 * static_cast<double>(n);
    EXPECT_LT(std::fabs(minus - bits / 2), 6 * std::sqrt(bits / 4)) << simd_name(level);

    Words parts(n);
    for (std::size_t begin = 0; begin < n;) {
      const std::size_t count = std::min<std::size_t>(1 + begin % 777, n - begin);
      const std::vector<Ballot> views{Ballot(ballots[0]).sub(begin, count), Ballot(ballots[1]).sub(begin, count)};
      vote(place, views, random_rule(begin), View<std::uint32_t>(parts).sub(begin, count));
      begin += count;
    }
    EXPECT_EQ(parts, whole) << simd_name(level);
  }
}

TEST(Vote, RefusesWhatItCannotCount) {
  Place place({.threads = 1});
  Words out(4);
  const auto none = message_of<InvalidConfig>([&] { vote(place, {}, random_rule(), out); });
  EXPECT_TRUE(contains(none, "1..65535") && contains(none, "got 0")) << none;
  const std::vector<Ballot> many(65'536, out);
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { vote(place, many, random_rule(), out); }), "got 65536"));
  Words other(5);
  const std::vector<Ballot> unequal{out, other};
  const auto size = message_of<InvalidConfig>([&] { vote(place, unequal, random_rule(), out); });
  EXPECT_TRUE(contains(size, "ballot has 5 entries, expected 4")) << size;
}

TEST(Vote, DoesNotAllocate) {
  for (const SimdLevel level : available_levels()) {
    Place place({.threads = 2, .simd = level});
    const auto ballots = random_ballots(8, 40'000);
    const auto views = views_of(ballots);
    Words out(40'000);
    vote(place, views, random_rule(), out);
    const auto before = allocation_count();
    vote(place, views, random_rule(), out);
    EXPECT_EQ(allocation_count(), before) << simd_name(level);
  }
}

}  // namespace
}  // namespace laconic::test
