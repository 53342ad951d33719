#include "data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>

#include "laconic/error.h"

namespace laconic {
namespace {

std::vector<int> labels_in_turn(std::uint32_t count, int classes) {
  std::vector<int> labels(count);
  for (std::uint32_t i = 0; i < count; ++i) labels[i] = static_cast<int>(i) % classes;
  return labels;
}

struct Batch {
  std::vector<std::uint32_t> samples;
  std::uint32_t epoch = 0;
  bool operator==(const Batch&) const = default;
};

Batch batch_of(const Sampler& sampler, int worker, std::uint32_t step) {
  Batch batch;
  sampler.batch(worker, step, batch.samples, batch.epoch);
  return batch;
}

/// The share of a shard that its most frequent label has, the mean over shards.
double purity(const Sampler& sampler, const std::vector<int>& labels) {
  double sum = 0.0;
  for (int w = 0; w < sampler.workers(); ++w) {
    std::vector<int> counts(10);
    for (const std::uint32_t sample : sampler.shard(w)) ++counts[static_cast<std::size_t>(labels[sample])];
    sum += static_cast<double>(*std::max_element(counts.begin(), counts.end())) /
           static_cast<double>(sampler.shard(w).size());
  }
  return sum / sampler.workers();
}

TEST(Shards, EverySampleIsInExactlyOneAndSizesAreEqualWithinOne) {
  for (const std::uint32_t count : {7U, 8U, 100U, 1009U}) {
    const std::vector<int> labels = labels_in_turn(count, 10);
    for (const int workers : {1, 2, 3, 5, 7}) {
      for (const double skew : {0.0, 0.1, 0.5, 0.999, 1.0}) {
        const Sampler sampler(labels, workers, {.batch = 1, .skew = skew});
        std::vector<int> seen(count);
        std::size_t least = count;
        std::size_t most = 0;
        for (int w = 0; w < workers; ++w) {
          least = std::min(least, sampler.shard(w).size());
          most = std::max(most, sampler.shard(w).size());
          for (const std::uint32_t sample : sampler.shard(w)) ++seen.at(sample);
        }
        EXPECT_EQ(seen, std::vector<int>(count, 1)) << count << " samples, " << workers << " workers, skew " << skew;
        EXPECT_LE(most - least, 1U) << count << " samples, " << workers << " workers, skew " << skew;
      }
    }
  }
}

TEST(Shards, SkewGoesFromAlikeToSortedByLabel) {
  const std::vector<int> labels = labels_in_turn(5000, 10);
  const auto purity_at = [&](double skew) { return purity(Sampler(labels, 10, {.batch = 1, .skew = skew}), labels); };
  EXPECT_LT(purity_at(0.0), 0.16);
  EXPECT_NEAR(purity_at(0.5), 0.55, 0.03);
  EXPECT_EQ(purity_at(1.0), 1.0);
}

TEST(Shards, AreFixedBySeedAndNotByBatch) {
  const std::vector<int> labels = labels_in_turn(100, 10);
  const auto shard = [&](std::uint64_t seed, int batch) {
    const Sampler sampler(labels, 4, {.seed = seed, .batch = batch});
    return std::vector<std::uint32_t>(sampler.shard(1).begin(), sampler.shard(1).end());
  };
  EXPECT_EQ(shard(1, 4), shard(1, 5));
  EXPECT_NE(shard(1, 4), shard(2, 4));
}

TEST(Epochs, ShowEachSampleOfTheShardOnceInAFreshOrder) {
  const std::vector<int> labels = labels_in_turn(96, 10);
  const Sampler sampler(labels, 3, {.batch = 8});
  ASSERT_EQ(sampler.steps_per_epoch(), 4U);
  std::vector<std::vector<std::uint32_t>> orders;
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::uint32_t>& order = orders.emplace_back();
    for (std::uint32_t step = 4 * epoch; step < 4 * epoch + 4; ++step) {
      const Batch batch = batch_of(sampler, 2, step);
      EXPECT_EQ(batch.epoch, epoch);
      order.insert(order.end(), batch.samples.begin(), batch.samples.end());
    }
    std::vector<std::uint32_t> sorted = order;
    std::vector<std::uint32_t> shard(sampler.shard(2).begin(), sampler.shard(2).end());
    std::sort(sorted.begin(), sorted.end());
    std::sort(shard.begin(), shard.end());
    EXPECT_EQ(sorted, shard) << "epoch " << epoch;
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(Epochs, AreTheSameForWorkersWhoseShardsDifferByOne) {
  const Sampler sampler(labels_in_turn(23, 10), 2, {.batch = 11});
  EXPECT_EQ(sampler.steps_per_epoch(), 1U);
  EXPECT_EQ(batch_of(sampler, 0, 5).epoch, batch_of(sampler, 1, 5).epoch);
}

TEST(Batches, ArePureFunctionsOfWorkerAndStep) {
  const std::vector<int> labels = labels_in_turn(200, 10);
  for (const Sampling sampling : {Sampling::epochs, Sampling::replacement}) {
    const SamplerOptions options{.seed = 9, .batch = 7, .sampling = sampling, .skew = 0.3};
    const Sampler in_order(labels, 4, options);
    const Sampler at_random(labels, 4, options);
    std::vector<Batch> expected;
    for (std::uint32_t step = 0; step < 40; ++step) expected.push_back(batch_of(in_order, 1, step));
    for (std::uint32_t i = 0; i < 40; ++i) {
      const std::uint32_t step = i * 17 % 40;
      EXPECT_EQ(batch_of(at_random, 1, step), expected[step]) << "step " << step;
    }
  }
}

TEST(Batches, WithReplacementComeFromTheShardAndRepeat) {
  const Sampler sampler(labels_in_turn(40, 10), 4, {.batch = 64, .sampling = Sampling::replacement});
  const std::set<std::uint32_t> shard(sampler.shard(3).begin(), sampler.shard(3).end());
  const Batch batch = batch_of(sampler, 3, 0);
  std::set<std::uint32_t> seen;
  for (const std::uint32_t sample : batch.samples) {
    EXPECT_TRUE(shard.contains(sample)) << sample;
    seen.insert(sample);
  }
  EXPECT_GT(seen.size(), 5U);
  EXPECT_LE(seen.size(), 10U);
  EXPECT_NE(batch, batch_of(sampler, 3, 1));
}

TEST(Batches, SharedOnesReachTheWholeTrainingSet) {
  const Sampler sampler(labels_in_turn(50, 10), 5, {.batch = 10, .skew = 1.0});
  std::set<std::uint32_t> seen;
  for (std::uint32_t round = 0; round < 100; ++round) {
    Batch batch;
    sampler.shared_batch(round, batch.samples, batch.epoch);
    EXPECT_EQ(batch.samples.size(), 10U);
    EXPECT_EQ(batch.epoch, round);
    seen.insert(batch.samples.begin(), batch.samples.end());
  }
  EXPECT_EQ(seen.size(), 50U);
  EXPECT_EQ(*seen.rbegin(), 49U);
}

TEST(Batches, ThreadsShareOneSampler) {
  const std::vector<int> labels = labels_in_turn(400, 10);
  const Sampler shared(labels, 4, {.batch = 16});
  const Sampler alone(labels, 4, {.batch = 16});
  std::vector<std::vector<Batch>> seen(4);
  std::vector<std::thread> threads;
  for (int w = 0; w < 4; ++w) {
    threads.emplace_back([&, w] {
      for (std::uint32_t step = 0; step < 30; ++step) {
        seen[static_cast<std::size_t>(w)].push_back(batch_of(shared, w, step));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int w = 0; w < 4; ++w) {
    for (std::uint32_t step = 0; step < 30; ++step) {
      EXPECT_EQ(seen[static_cast<std::size_t>(w)][step], batch_of(alone, w, step));
    }
  }
}

TEST(SamplerErrors, NameValueAndRange) {
  const std::vector<int> labels = labels_in_turn(20, 10);
  const auto message = [&](int workers, SamplerOptions options) {
    try {
      const Sampler sampler(labels, workers, options);
    } catch (const InvalidConfig& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(message(0, {}), "workers must be 1 or more, got 0");
  EXPECT_EQ(message(21, {.batch = 1}), "there are 20 training samples for 21 workers: each needs one at least");
  EXPECT_EQ(message(2, {.batch = 0}), "batch must be 1 or more, got 0");
  EXPECT_NE(message(2, {.batch = 11}).find("at most the 10 samples of a shard, got 11"), std::string::npos);
  EXPECT_EQ(message(2, {.batch = 11, .sampling = Sampling::replacement}), "nothing was thrown");
  EXPECT_NE(message(2, {.batch = 1, .skew = 1.5}).find("skew must be in [0, 1], got 1.5"), std::string::npos);
  const Sampler sampler(labels, 2, {.batch = 1});
  EXPECT_THROW(batch_of(sampler, 2, 0), InvalidConfig);
  EXPECT_THROW(batch_of(sampler, -1, 0), InvalidConfig);
}

}  // namespace
}  // namespace laconic
