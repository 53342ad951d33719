#include "torch/plugin/gradient_host.h"

#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <limits>

#include "laconic/error.h"
#include "laconic/nonfinite.h"
#include "laconic/threads.h"
#include "methods/table.h"
#include "support/one_order.h"
#include "support/support.h"

namespace laconic::plugin {
namespace {

constexpr int kRanks = 3;

std::vector<Tensor> model() { return {{"a", 40}, {"b", 7}, {"empty", 0}, {"c", 65}, {"d", 1}, {"e", 33}}; }

std::vector<float> gradient(const Tensor& tensor, int rank, std::uint32_t step) {
  std::vector<float> values(tensor.size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i * 13 + step * 7 + tensor.size) + 0.37F * static_cast<float>(rank));
  }
  return values;
}

using Values = std::vector<std::vector<float>>;

Values gradients(int rank, std::uint32_t step) {
  Values values;
  for (const Tensor& tensor : model()) values.push_back(gradient(tensor, rank, step));
  return values;
}

/// Some tensors of a step, and a promise of how they end.
class TestDelivery : public Delivery {
 public:
  TestDelivery(Values& values, std::vector<std::uint32_t> tensors, std::vector<std::uint32_t> unused = {})
      : unused_(std::move(unused)) {
    for (const std::uint32_t each : tensors) parts_.push_back({each, View<float>(values[each])});
  }
  std::future<Outcome> future() { return promise_.get_future(); }

  std::span<const TensorPart> open() override { return parts_; }
  std::span<const std::uint32_t> unused() const override { return unused_; }
  void close(Outcome outcome) override { promise_.set_value(outcome); }
  void fail(std::exception_ptr error) noexcept override { promise_.set_exception(error); }

 private:
  std::vector<TensorPart> parts_;
  std::vector<std::uint32_t> unused_;
  std::promise<Outcome> promise_;
};

using Partition = std::vector<std::vector<std::uint32_t>>;
const Partition kBackward{{5, 4}, {3}, {2, 1}, {0}};
const Partition kMixed{{1}, {5, 0, 2}, {3, 4}};

Outcome step(GradientHost& host, Values& values, const Partition& partition, std::vector<std::uint32_t> unused = {}) {
  std::vector<std::future<Outcome>> futures;
  for (const auto& tensors : partition) {
    std::vector<std::uint32_t> here;
    for (const std::uint32_t each : tensors) {
      if (std::find(unused.begin(), unused.end(), each) != unused.end()) here.push_back(each);
    }
    auto delivery = std::make_unique<TestDelivery>(values, tensors, here);
    futures.push_back(delivery->future());
    host.submit(std::move(delivery));
  }
  Outcome outcome{};
  for (auto& future : futures) outcome = future.get();
  return outcome;
}

std::vector<MethodGroup> whole(const std::string& method, MethodOptions options = {}) {
  return {{method, options, {0, 1, 2, 3, 4, 5}}};
}

std::unique_ptr<GradientHost> make_host(Communicator& communicator, std::vector<MethodGroup> groups,
                                        const MethodSetOptions& options = {}, bool scaled = false) {
  auto place = std::make_unique<Place>(CpuOptions{.threads = 1});
  return std::make_unique<GradientHost>(communicator.duplicate(), std::move(place), model(), std::move(groups), options,
                                        scaled);
}

MethodOptions sparse(double keep) { return {.keep = keep}; }

/// The method alone on the same gradients.
class Reference {
 public:
  Reference(Communicator& communicator, const std::string& method, const MethodOptions& options,
            std::vector<std::uint32_t> tensors = {0, 1, 2, 3, 4, 5}, std::uint32_t group = 0)
      : seed_(seed_of_group(0, group)),
        tensors_(std::move(tensors)),
        lane_(communicator.duplicate()),
        place_(CpuOptions{.threads = 1}),
        method_(make_method(method, options, *lane_, place_)) {
    std::vector<Tensor> told;
    for (const std::uint32_t each : tensors_) told.push_back(model()[each]);
    method_->register_tensors(told);
    method_->set_nonfinite_policy(NonfinitePolicy::skip);
  }
  void step(Values& values, std::uint32_t number) {
    std::vector<float> flat;
    for (const std::uint32_t each : tensors_) flat.insert(flat.end(), values[each].begin(), values[each].end());
    method_->reduce({seed_, number, static_cast<std::uint32_t>(lane_->rank())}, View<float>(flat));
    auto from = flat.begin();
    for (const std::uint32_t each : tensors_) {
      std::copy_n(from, values[each].size(), values[each].begin());
      from += static_cast<std::ptrdiff_t>(values[each].size());
    }
  }

 private:
  std::uint64_t seed_;
  std::vector<std::uint32_t> tensors_;
  std::unique_ptr<Communicator> lane_;
  Place place_;
  std::unique_ptr<GradientMethod> method_;
};

/// Cannot bring its result back, as a device that has failed cannot.
class BrokenDelivery final : public TestDelivery {
 public:
  using TestDelivery::TestDelivery;
  void close(Outcome /*outcome*/) override { throw std::runtime_error("cannot be closed"); }
};

TEST(GradientHost, WhoeverWaitsForAPieceThatCannotBeClosedIsTold) {
  run_ranks(1, [&](Communicator& communicator) {
    const auto host = make_host(communicator, whole("sgd"));
    Values values = gradients(0, 0);
    auto good = std::make_unique<TestDelivery>(values, std::vector<std::uint32_t>{5, 4, 3});
    auto broken = std::make_unique<BrokenDelivery>(values, std::vector<std::uint32_t>{2, 1});
    auto behind = std::make_unique<TestDelivery>(values, std::vector<std::uint32_t>{0});
    std::future<Outcome> ends[] = {good->future(), broken->future(), behind->future()};
    host->submit(std::move(good));
    host->submit(std::move(broken));
    host->submit(std::move(behind));
    EXPECT_EQ(ends[0].get(), Outcome::counted);
    EXPECT_THROW(ends[1].get(), std::runtime_error);
    EXPECT_THROW(ends[2].get(), std::runtime_error);
    EXPECT_THROW(step(*host, values, kBackward), std::runtime_error);
  });
}

TEST(GradientHost, EqualsTheMethodHoweverPartsArrive) {
  for (const MethodRow& row : method_table()) {
    if (row.face != Face::gradient || std::string(row.name) == "adam") continue;
    MethodOptions options;
    for (const Parameter& parameter : row.parameters) {
      if (std::string(parameter.name) == "keep") options.keep = 0.1;
    }
    // In one chunk, and in chunks that are exchanged as they arrive, where the method can.
    for (const std::uint64_t chunk : {0, 20}) {
      if (chunk > 0 && options.keep) options.scope = "tensor";
      run_ranks(kRanks, [&](Communicator& communicator) {
        const auto host = make_host(communicator, whole(row.name, options), {.chunk_entries = chunk});
        Reference reference(communicator, row.name, options);
        for (std::uint32_t number = 0; number < 6; ++number) {
          Values mine = gradients(communicator.rank(), number);
          Values expected = mine;
          // Ranks need not have the same deliveries, as after one of them rebuilt its buckets.
          step(*host, mine, (number + static_cast<std::uint32_t>(communicator.rank())) % 2 == 0 ? kBackward : kMixed);
          reference.step(expected, number);
          ASSERT_EQ(mine, expected) << row.name << ", step " << number << ", rank " << communicator.rank();
        }
      });
    }
  }
}

TEST(GradientHost, GroupsWarmUpAndMetrics) {
  run_ranks(kRanks, [&](Communicator& communicator) {
    const auto host =
        make_host(communicator, {{"topk", sparse(0.2), {0, 3}}, {"signsgd", {}, {5}}, {"sgd", {}, {1, 2, 4}}},
                  {.seed = 0, .warmup = 2});
    Reference dense(communicator, "sgd", {});
    Reference top(communicator, "topk", sparse(0.2), {0, 3});
    Reference sign(communicator, "signsgd", {}, {5});
    Reference rest(communicator, "sgd", {}, {1, 2, 4});
    for (std::uint32_t number = 0; number < 5; ++number) {
      Values mine = gradients(communicator.rank(), number);
      Values expected = mine;
      step(*host, mine, kMixed);
      if (number < 2) {
        dense.step(expected, number);
      } else {
        top.step(expected, number);
        sign.step(expected, number);
        rest.step(expected, number);
      }
      ASSERT_EQ(mine, expected) << number;
    }
    const HostMetrics metrics = host->metrics();
    EXPECT_EQ(metrics.steps, 5U);
    EXPECT_EQ(metrics.skipped, 0U);
    EXPECT_EQ(metrics.last.dense_bytes, 146U * 4);
    EXPECT_EQ(metrics.total.dense_bytes, 5U * 146U * 4);
    EXPECT_GT(metrics.total.traffic.payload_bytes, metrics.last.traffic.payload_bytes);
    EXPECT_GT(metrics.residual_norm, 0.0);
  });
}

/// Whatever arrives first, the ranks make the same calls in the same order, and with other groups the same results.
TEST(GradientHost, GroupsTakeTurnsWhereDuplicatesDoNotOverlap) {
  std::vector<test::CallLog> logs(kRanks);
  run_ranks(kRanks, [&](Communicator& communicator) {
    test::CallLog& log = logs[static_cast<std::size_t>(communicator.rank())];
    test::OneOrder ordered(communicator.duplicate(), log);
    const auto host = make_host(ordered, {{"signsgd", {}, {0, 4}}, {"qsgd", {}, {1, 2, 3}}, {"sgd", {}, {5}}},
                                {.warmup = 2, .chunk_entries = 1});
    for (const Neighbours& group : host->neighbours()) {
      EXPECT_EQ(group.streams, group.parameters.front() == 1) << "of two that have several chunks the larger one";
    }
    Reference dense(communicator, "sgd", {});
    Reference sign(communicator, "signsgd", {}, {0, 4});
    Reference bits(communicator, "qsgd", {}, {1, 2, 3}, 1);
    Reference rest(communicator, "sgd", {}, {5}, 2);
    for (std::uint32_t number = 0; number < 8; ++number) {
      Values mine = gradients(communicator.rank(), number);
      Values expected = mine;
      step(*host, mine, (number + static_cast<std::uint32_t>(communicator.rank())) % 2 == 0 ? kBackward : kMixed);
      if (number < 2) {
        dense.step(expected, number);
      } else {
        for (Reference* each : {&bits, &sign, &rest}) each->step(expected, number);
      }
      ASSERT_EQ(mine, expected) << number;
    }
  });
  for (const test::CallLog& log : logs) EXPECT_TRUE(log.calls == logs.front().calls);
}

TEST(GradientHost, NonfiniteStepLeavesEveryGroupsMemory) {
  for (const bool scaled : {false, true}) {
    run_ranks(kRanks, [&](Communicator& communicator) {
      const auto host = make_host(communicator, {{"topk", sparse(0.1), {0, 1, 2, 3}}, {"randk", sparse(0.1), {4, 5}}},
                                  {.policy = scaled ? NonfinitePolicy::error : NonfinitePolicy::skip}, scaled);
      Reference top(communicator, "topk", sparse(0.1), {0, 1, 2, 3});
      Reference random(communicator, "randk", sparse(0.1), {4, 5}, 1);
      for (std::uint32_t number = 0; number < 5; ++number) {
        Values mine = gradients(communicator.rank(), number);
        Values expected = mine;
        // Only the second group of one rank: the first must not count the step either.
        const bool bad = number == 2;
        if (bad && communicator.rank() == 1) mine[5][3] = std::numeric_limits<float>::infinity();
        EXPECT_EQ(step(*host, mine, kBackward), bad ? Outcome::skipped : Outcome::counted);
        if (bad) {
          for (const auto& values : mine) ASSERT_EQ(values, std::vector<float>(values.size()));
          continue;
        }
        top.step(expected, number);
        random.step(expected, number);
        ASSERT_EQ(mine, expected) << number;
      }
      EXPECT_EQ(host->metrics().skipped, 1U);
    });
  }
}

TEST(GradientHost, NonfiniteErrorNamesRankTensorAndStepAndGoesOn) {
  run_ranks(kRanks, [&](Communicator& communicator) {
    const auto host =
        make_host(communicator, {{"topk", sparse(0.1), {0, 1, 2, 3}}, {"sgd", {}, {4, 5}}}, MethodSetOptions{});
    Reference top(communicator, "topk", sparse(0.1), {0, 1, 2, 3});
    Reference dense(communicator, "sgd", {}, {4, 5});
    Values mine = gradients(communicator.rank(), 0);
    if (communicator.rank() == 2) mine[5][0] = std::nanf("");
    try {
      step(*host, mine, kBackward);
      FAIL() << "no error";
    } catch (const NonfiniteValue& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("rank 2"), std::string::npos) << text;
      EXPECT_NE(text.find("tensor e"), std::string::npos) << text;
      EXPECT_NE(text.find("step 0"), std::string::npos) << text;
    }
    mine = gradients(communicator.rank(), 1);
    Values expected = mine;
    step(*host, mine, kBackward);
    top.step(expected, 1);
    dense.step(expected, 1);
    EXPECT_EQ(mine, expected);
  });
}

/// Drops its step.
class AbandoningDelivery final : public TestDelivery {
 public:
  using TestDelivery::TestDelivery;
  bool abandons() const override { return true; }
};

TEST(GradientHost, TellsAnAbandonedStepFromASkippedOne) {
  const std::vector<Outcome> outcomes{Outcome::counted, Outcome::skipped, Outcome::counted, Outcome::abandoned,
                                      Outcome::counted};
  run_ranks(kRanks, [&](Communicator& communicator) {
    const auto host = make_host(communicator, whole("topk", sparse(0.1)),
                                {.policy = NonfinitePolicy::skip, .drops_unused = true, .used_alike = true});
    Reference top(communicator, "topk", sparse(0.1));
    for (std::uint32_t number = 0; number < outcomes.size(); ++number) {
      Values mine = gradients(communicator.rank(), number);
      Values expected = mine;
      const bool bad = communicator.rank() == 1 && outcomes[number] != Outcome::counted;
      // An abandoned step is dropped whatever its values are: a rank's shards may be empty.
      if (bad && outcomes[number] == Outcome::skipped) mine[0][0] = std::nanf("");
      if (bad && outcomes[number] == Outcome::abandoned) {
        auto delivery = std::make_unique<AbandoningDelivery>(mine, std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5});
        auto future = delivery->future();
        host->submit(std::move(delivery));
        EXPECT_EQ(future.get(), Outcome::abandoned);
        continue;
      }
      const Outcome outcome = step(*host, mine, kBackward);
      EXPECT_EQ(outcome, outcomes[number]);
      if (outcome != Outcome::counted) continue;
      top.step(expected, number);
      EXPECT_EQ(mine, expected) << number;
    }
  });
}

TEST(GradientHost, OtherParametersOnOneRankDropTheStepAndItGoesOn) {
  run_ranks(kRanks, [&](Communicator& communicator) {
    const auto host = make_host(communicator, whole("topk", sparse(0.1)), {.drops_unused = true, .used_alike = true});
    Reference top(communicator, "topk", sparse(0.1));
    Values mine = gradients(communicator.rank(), 0);
    const std::vector<std::uint32_t> none;
    try {
      step(*host, mine, kBackward, communicator.rank() == 2 ? std::vector<std::uint32_t>{3} : none);
      FAIL() << "no error";
    } catch (const OtherParameters& error) {
      EXPECT_NE(std::string(error.what()).find("rank 2 of the replicas did not use c"), std::string::npos)
          << error.what();
    }
    mine = gradients(communicator.rank(), 1);
    Values expected = mine;
    EXPECT_EQ(step(*host, mine, kBackward), Outcome::counted);
    top.step(expected, 1);
    EXPECT_EQ(mine, expected);
  });
}

TEST(GradientHost, ResumesBitForBitAndRefusesOthersState) {
  run_ranks(kRanks, [&](Communicator& communicator) {
    const auto groups = [] {
      return std::vector<MethodGroup>{{"regtopk", sparse(0.1), {0, 1, 2, 3}}, {"signum", {}, {4, 5}}};
    };
    const auto host = make_host(communicator, groups());
    for (std::uint32_t number = 0; number < 3; ++number) {
      Values mine = gradients(communicator.rank(), number);
      step(*host, mine, kBackward);
    }
    const auto bytes = host->save().to_bytes();
    const auto other = make_host(communicator, groups());
    // As long before the first step as after it: a checkpoint is read into the memory of a fresh run.
    EXPECT_EQ(other->save().to_bytes().size(), bytes.size());
    other->load(View<const std::byte>(bytes));
    Values mine = gradients(communicator.rank(), 3);
    Values resumed = mine;
    step(*host, mine, kBackward);
    step(*other, resumed, kMixed);
    EXPECT_EQ(mine, resumed);

    std::vector<std::byte> all(bytes.size() * kRanks);
    communicator.all_gather(View<const std::byte>(bytes), View<std::byte>(all)).wait();
    const std::size_t neighbour = static_cast<std::size_t>((communicator.rank() + 1) % kRanks);
    const View<const std::byte> wrong = View<const std::byte>(all).sub(neighbour * bytes.size(), bytes.size());
    EXPECT_THROW(other->load(wrong), InvalidConfig);
    // One rank alone has the wrong one: all are told.
    EXPECT_THROW(other->load(communicator.rank() == 0 ? wrong : View<const std::byte>(bytes)), InvalidConfig);
    const auto strange = make_host(communicator, {{"regtopk", sparse(0.1), {0, 1, 2}}, {"signum", {}, {3, 4, 5}}});
    EXPECT_THROW(strange->load(View<const std::byte>(bytes)), InvalidConfig);
  });
}

TEST(GradientHost, WhatIsSentOfAnUnusedParameterWaits) {
  run_ranks(kRanks, [&](Communicator& communicator) {
    const auto host = make_host(communicator, whole("topk", sparse(0.05)), {.drops_unused = true});
    std::vector<double> given(65);
    std::vector<double> applied(65);
    for (std::uint32_t number = 0; number < 12; ++number) {
      Values mine = gradients(communicator.rank(), number);
      // Tensor 3 is used by all in the first step, by one rank in the fifth, by none in the others.
      const bool used = number == 0 || number == 5;
      if (!used || (number == 5 && communicator.rank() != 1)) std::fill(mine[3].begin(), mine[3].end(), 0.0F);
      const bool unused = !used || (number == 5 && communicator.rank() != 1);
      for (float& value : mine[3]) value *= 10.0F;  // so large that it is sent when nobody uses it
      for (std::size_t i = 0; i < 65; ++i) given[i] += mine[3][i];
      step(*host, mine, kBackward, unused ? std::vector<std::uint32_t>{3} : std::vector<std::uint32_t>{});
      if (used) {
        for (std::size_t i = 0; i < 65; ++i) applied[i] += mine[3][i];
      }
    }
    // Everything that was given comes in the end: a last step in which all is sent.
    double mean = 0.0;
    std::vector<float> mine(given.begin(), given.end());
    communicator.all_reduce(View<float>(mine), Reduction::sum).wait();
    for (std::uint32_t number = 12; number < 60; ++number) {
      Values zero = gradients(communicator.rank(), number);
      for (auto& values : zero) std::fill(values.begin(), values.end(), 0.0F);
      step(*host, zero, kBackward);
      for (std::size_t i = 0; i < 65; ++i) applied[i] += zero[3][i];
    }
    for (std::size_t i = 0; i < 65; ++i) {
      EXPECT_NEAR(applied[i], mine[i] / kRanks, 1e-4) << i;
      mean += std::abs(applied[i]);
    }
    EXPECT_GT(mean, 0.1);
  });
}

TEST(GradientHost, AnErrorReachesEveryPieceAndEveryLaterCall) {
  run_ranks(1, [&](Communicator& communicator) {
    const auto host = make_host(communicator, whole("sgd"));
    Values mine = gradients(0, 0);
    auto first = std::make_unique<TestDelivery>(mine, std::vector<std::uint32_t>{0, 1});
    auto twice = std::make_unique<TestDelivery>(mine, std::vector<std::uint32_t>{1});
    auto waiting = first->future();
    auto refused = twice->future();
    host->submit(std::move(first));
    host->submit(std::move(twice));
    EXPECT_THROW(refused.get(), InvalidConfig);
    EXPECT_THROW(waiting.get(), InvalidConfig);
    EXPECT_THROW(step(*host, mine, kBackward), InvalidConfig);
    EXPECT_THROW(host->save(), InvalidConfig);
  });
}

TEST(GradientHost, ARankThatFailsEndsTheOthers) {
  std::vector<std::string> told(kRanks);
  try {
    run_ranks(kRanks, [&](Communicator& communicator) {
      const auto host = make_host(communicator, whole("topk", sparse(0.1)));
      Values mine = gradients(communicator.rank(), 0);
      const Partition twice{{0}, {0}};
      try {
        step(*host, mine, communicator.rank() == 1 ? twice : kBackward);
      } catch (const Error& error) {
        told[static_cast<std::size_t>(communicator.rank())] = error.what();
      }
    });
  } catch (const Error&) {
  }
  EXPECT_NE(told[0].find("rank 1"), std::string::npos) << told[0];
  EXPECT_NE(told[0].find("added twice"), std::string::npos) << told[0];
  EXPECT_NE(told[2].find("rank 1"), std::string::npos) << told[2];
}

// Rank 0 has sent its part and waits for rank 1, which ends instead; or waits for its own last delivery. Neither is
// kept by the communicators' timeout, which is longer than the test's.
TEST(GradientHost, EndsInTheMiddleOfAStep) {
  std::vector<std::string> told(2);
  run_ranks(2, [&](Communicator& communicator) {
    communicator.set_timeout(Milliseconds(3'600'000));
    const auto host = make_host(communicator, whole("topk", sparse(0.2)));
    Values mine = gradients(communicator.rank(), 0);
    const bool all = communicator.rank() == 0;
    auto delivery = std::make_unique<TestDelivery>(
        mine, all ? std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5} : std::vector<std::uint32_t>{0, 1});
    auto future = delivery->future();
    host->submit(std::move(delivery));
    if (!all) host->close();
    told[static_cast<std::size_t>(communicator.rank())] = test::message_of<std::exception>([&] { future.get(); });
    host->close();
    host->close();
    EXPECT_THROW(host->save(), Error);
    auto late = std::make_unique<TestDelivery>(mine, std::vector<std::uint32_t>{0});
    auto refused = late->future();
    host->submit(std::move(late));
    EXPECT_THROW(refused.get(), Error);
  });
  EXPECT_TRUE(test::contains(told[0], "rank 1")) << told[0];
  EXPECT_TRUE(test::contains(told[1], "ended")) << told[1];
}

TEST(GradientHost, RefusesWhatItCannotDo) {
  run_ranks(1, [&](Communicator& communicator) {
    EXPECT_THROW(make_host(communicator, whole("adam")), InvalidConfig);
    EXPECT_THROW(make_host(communicator, {{"sgd", {}, {0, 1, 2}}}), InvalidConfig);
    EXPECT_THROW(make_host(communicator, {{"sgd", {}, {0, 1, 2, 3, 4, 5}}, {"topk", sparse(0.1), {3}}}), InvalidConfig);
    EXPECT_THROW(make_host(communicator, whole("def-a")), InvalidConfig);
  });
}

}  // namespace
}  // namespace laconic::plugin
