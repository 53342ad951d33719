// The measuring itself: medians, runs that are left out, supports of the right overlap, streams that move everything.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "bench/methods.h"
#include "bench/progress.h"
#include "bench/streams.h"
#include "bench/supports.h"
#include "bench/timing.h"
#include "laconic/error.h"

namespace laconic::bench {
namespace {

TEST(Samples, GiveTheMedian) {
  Samples odd;
  for (const double seconds : {5.0, 1.0, 3.0}) odd.add(seconds, 2 * seconds);
  EXPECT_DOUBLE_EQ(odd.median(), 3.0);
  Samples even;
  for (const double seconds : {4.0, 1.0, 3.0, 2.0}) even.add(seconds, 2 * seconds);
  EXPECT_DOUBLE_EQ(even.median(), 2.5);
}

TEST(Samples, LeaveOutRunsWithoutTheirCores) {
  Samples samples;
  for (int i = 0; i < 3; ++i) samples.add(1.0, 2.0);
  for (int i = 0; i < 4; ++i) samples.add(9.0, 9.0);  // only one core of two
  EXPECT_DOUBLE_EQ(samples.median(), 1.0);
  EXPECT_EQ(samples.discarded(), 4);
}

TEST(Samples, KeepKernelsWithASerialPart) {
  Samples samples;
  for (const double seconds : {1.0, 2.0, 3.0}) samples.add(seconds, 1.4 * seconds);
  EXPECT_DOUBLE_EQ(samples.median(), 2.0);
  EXPECT_EQ(samples.discarded(), 0);
}

TEST(Filter, MatchesAnyOfItsWords) {
  EXPECT_TRUE(matches("topk_cold", ""));
  EXPECT_TRUE(matches("topk_cold", "vote,topk"));
  EXPECT_FALSE(matches("topk_cold", "vote,sign"));
  EXPECT_FALSE(matches("topk_cold", ",vote,"));
}

TEST(Supports, HaveTheAskedOverlapAndAreSpread) {
  constexpr std::uint64_t kN = 100'003;
  constexpr std::uint64_t kCount = 1'000;
  for (const double overlap : {0.0, 0.5, 1.0}) {
    for (const int ranks : {1, 2, 7}) {
      const Supports supports = draw_supports(kN, kCount, overlap, ranks);
      std::set<std::uint32_t> all;
      for (const auto& support : supports.of_rank) {
        ASSERT_EQ(support.size(), kCount);
        EXPECT_TRUE(std::is_sorted(support.begin(), support.end()));
        EXPECT_LT(support.back(), kN);
        all.insert(support.begin(), support.end());
        const double centre = std::accumulate(support.begin(), support.end(), 0.0) / kCount / kN;
        EXPECT_NEAR(centre, 0.5, 0.05);  // five standard deviations
      }
      const auto shared = static_cast<std::uint64_t>(overlap * kCount);
      EXPECT_EQ(all.size(), shared + static_cast<std::uint64_t>(ranks) * (kCount - shared)) << overlap << ' ' << ranks;
    }
  }
}

TEST(Supports, FillAllCoordinatesIfTheyMust) {
  const Supports supports = draw_supports(100, 50, 0.0, 2);
  EXPECT_EQ(supports.of_rank[0].size(), 50U);
  EXPECT_EQ(supports.of_rank[1].size(), 50U);
  EXPECT_EQ(fitting_count(100, 50, 0.0, 2), 50U);
  EXPECT_EQ(fitting_count(100, 50, 0.0, 4), 25U);
  EXPECT_EQ(fitting_count(100, 50, 1.0, 4), 50U);
}

class Streams : public ::testing::TestWithParam<std::size_t> {
 protected:
  ThreadPool pool_{2};
  std::vector<float> x_ = std::vector<float>(GetParam(), 1.5F);
  std::vector<float> y_ = std::vector<float>(GetParam(), 2.0F);
};

TEST_P(Streams, ReachEveryEntry) {
  stream_add(pool_, x_, y_);
  EXPECT_EQ(std::count(y_.begin(), y_.end(), 3.5F), std::ssize(y_));
  stream_copy(pool_, x_, y_);
  EXPECT_EQ(y_, x_);
  stream_write(pool_, y_);
  EXPECT_EQ(std::count(y_.begin(), y_.end(), 0.5F), std::ssize(y_));
  stream_read_and_update(pool_, as_bytes(View<const float>(x_)), y_);
  EXPECT_EQ(std::count(y_.begin(), y_.end(), 1.0F), std::ssize(y_));
  const View<const float> parts[] = {x_, x_, x_};
  stream_merge(pool_, parts, y_);
  EXPECT_EQ(std::count(y_.begin(), y_.end(), 4.5F), std::ssize(y_));
  std::vector<std::uint16_t> halves(x_.size());
  stream_narrow(pool_, x_, halves);
  EXPECT_EQ(std::count(halves.begin(), halves.end(), 0x3FC0), std::ssize(halves));
  stream_widen(pool_, halves, y_);
  EXPECT_EQ(std::count(y_.begin(), y_.end(), y_.empty() ? 0.0F : y_[0]), std::ssize(y_));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Streams, ::testing::Values(0, 1, 15, 17, 4097, 100'003));

// bench_methods compares both sides after every step and throws where a bit differs: a method that no longer is its
// kernels and exchange shows here.
TEST(Methods, AreTheirKernelsAndExchangeBitForBit) {
  for (const std::uint64_t n : {5'003U, 20'011U}) {  // one tensor, and sixty-four
    for (const int workers : {1, 2, 3}) {
      const auto results = bench_methods({.n = n, .workers = workers, .repeats = 2, .filter = ""}, [](const auto&) {});
      EXPECT_GE(results.size(), 11U);
      for (const MethodResult& result : results) {
        EXPECT_GT(result.step_seconds, 0.0) << result.method;
        EXPECT_GT(result.bare_seconds, 0.0) << result.method;
      }
    }
  }
}

TEST(Methods, RefuseAFilterThatMatchesNothing) {
  EXPECT_THROW(bench_methods({.filter = "nosuchmethod"}, [](const auto&) {}), InvalidConfig);
}

}  // namespace
}  // namespace laconic::bench
