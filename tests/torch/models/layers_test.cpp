// Batch norm in both modes, and dropout by our own draws.

#include "torch/models/layers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "laconic/error.h"
#include "support/support.h"
#include "torch/networks.h"

namespace laconic::nets {
namespace {

class BatchNorms : public ::testing::Test {
 protected:
  Builder builder_{1};
  BatchNorm norm_{builder_, 3};
  torch::Tensor input_ = test::some_input(test::images(3, 5), 4) * 2.0 + 1.0;
  torch::Tensor mean_ = input_.mean({0, 2, 3});
  torch::Tensor variance_ = input_.var({0, 2, 3}, /*unbiased=*/true);

  torch::Tensor running(const char* name) { return norm_.named_buffers()[name]; }
  static void expect_near(const torch::Tensor& ours, const torch::Tensor& theirs, const char* what) {
    EXPECT_LT((ours - theirs).abs().max().item<float>(), 1e-5F) << what << ": " << ours << " against " << theirs;
  }
};

TEST_F(BatchNorms, TrainByTheBatch) {
  const torch::Tensor output = norm_.forward(input_);
  expect_near(output.mean({0, 2, 3}), torch::zeros(3), "mean");
  expect_near(output.var({0, 2, 3}, false), torch::ones(3), "variance");
  expect_near(running("running_mean"), 0.1 * mean_, "running mean");
  expect_near(running("running_var"), 0.9 + 0.1 * variance_, "running variance");
}

TEST_F(BatchNorms, EvaluateByTheRunningStatistics) {
  norm_.forward(input_);
  norm_.eval();
  const torch::Tensor mean = running("running_mean").clone();
  const torch::Tensor variance = running("running_var").clone();
  const auto channels = [](const torch::Tensor& values) { return values.view({1, 3, 1, 1}); };
  const torch::Tensor expected = (input_ - channels(mean)) / (channels(variance) + 1e-5).sqrt();
  expect_near(norm_.forward(input_), expected, "output");
  EXPECT_TRUE(running("running_mean").equal(mean)) << "evaluation moved the statistics";
  EXPECT_TRUE(running("running_var").equal(variance)) << "evaluation moved the statistics";
}

// Momentum 1, then 1/2: the plain mean of two batches, whatever stood there before.
TEST_F(BatchNorms, ReEstimate) {
  const torch::Tensor other = input_ * 3.0 - 2.0;
  norm_.forward(other);
  builder_.conditions()->norm_momentum = 1.0;
  norm_.forward(input_);
  builder_.conditions()->norm_momentum = 0.5;
  norm_.forward(other);
  expect_near(running("running_mean"), (mean_ + other.mean({0, 2, 3})) / 2, "mean of means");
  expect_near(running("running_var"), (variance_ + other.var({0, 2, 3}, true)) / 2, "mean of variances");
}

TEST_F(BatchNorms, RefuseOneValueAChannel) {
  const torch::Tensor one = torch::ones({1, 3, 1, 1});
  EXPECT_PRED2(test::contains, test::message_of<InvalidConfig>([&] { norm_.forward(one); }), "batch must be 2 or more");
  EXPECT_TRUE(running("running_var").equal(torch::ones(3))) << "a refused batch moved the statistics";
  EXPECT_NO_THROW(norm_.forward(torch::ones({2, 3, 1, 1})));
  norm_.eval();
  EXPECT_NO_THROW(norm_.forward(one));
}

class Dropouts : public ::testing::Test {
 protected:
  Builder builder_{1};
  Dropout first_{builder_, 0.25};
  Dropout second_{builder_, 0.25};
  torch::Tensor ones_ = torch::ones({100, 1000});

  torch::Tensor dropped(Dropout& layer, DrawKey key) {
    builder_.conditions()->set_draws(key);
    return layer.forward(ones_);
  }
};

TEST_F(Dropouts, DropTheirShareAndKeepTheMean) {
  const torch::Tensor output = dropped(first_, {.seed = 1});
  const torch::Tensor zeros = output.eq(0);
  // 100,000 coins of 1/4: six standard deviations are 0.0082, a false alarm once in 10^8.
  EXPECT_NEAR(zeros.to(torch::kDouble).mean().item<double>(), 0.25, 6.0 * std::sqrt(0.25 * 0.75 / 1e5));
  EXPECT_TRUE((zeros | output.eq(static_cast<float>(1.0 / 0.75))).all().item<bool>()) << "a value of neither kind";
}

TEST_F(Dropouts, DependOnKeyAndLayerAlone) {
  std::vector<std::uint32_t> samples(100), others(100);
  std::iota(samples.begin(), samples.end(), 40U);
  std::iota(others.begin(), others.end(), 140U);
  const torch::Tensor output = dropped(first_, {1, 2, samples});
  EXPECT_TRUE(output.equal(dropped(first_, {1, 2, samples})));
  // Two independent masks agree in 1/16 + 9/16 of the entries.
  const auto expect_independent = [&](const torch::Tensor& other, const char* what) {
    const double agree = output.eq(other).to(torch::kDouble).mean().item<double>();
    EXPECT_NEAR(agree, 0.625, 6.0 * std::sqrt(0.625 * 0.375 / 1e5)) << what;
  };
  expect_independent(dropped(first_, {2, 2, samples}), "another seed");
  expect_independent(dropped(first_, {1, 3, samples}), "another epoch");
  expect_independent(dropped(first_, {1, 2, others}), "other samples");
  expect_independent(dropped(second_, {1, 2, samples}), "another layer");
}

// Whichever worker has it and whatever else is in its batch.
TEST_F(Dropouts, FollowTheSample) {
  const torch::Tensor whole = dropped(first_, {1, 2, {}});
  ones_ = torch::ones({3, 1000});
  const torch::Tensor some = dropped(first_, {1, 2, {57, 3, 57}});
  EXPECT_TRUE(some[0].equal(whole[57]));
  EXPECT_TRUE(some[1].equal(whole[3]));
  EXPECT_TRUE(some[2].equal(whole[57]));
  EXPECT_PRED2(test::contains, test::message_of<InvalidConfig>([&] { dropped(first_, {1, 2, {57, 3}}); }), "samples");
}

TEST_F(Dropouts, LeaveEvaluationAlone) {
  first_.eval();
  EXPECT_TRUE(dropped(first_, {}).equal(ones_));
}

TEST(Draws, AreThoseOfTheStream) {
  const RandomStream stream{.seed = 3, .step = 1, .rank = 2, .tensor = 4};
  for (const std::size_t n : {0, 1, 15, 16, 17, 63, 64, 65, 127, 1000}) {
    std::vector<float> values(n);
    fill_uniform(stream, 2.0, values);
    for (std::size_t i = 0; i < n; ++i) {
      const auto expected = static_cast<float>(2.0 * ((draw32(stream, i) + 0.5) * 0x1p-31 - 1.0));
      ASSERT_EQ(values[i], expected) << i << " of " << n;
    }
  }
}

}  // namespace
}  // namespace laconic::nets
