// What block methods do when a value is not finite, a run is cut, ranks come or go, or settings do not fit.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr std::size_t kInBias = 705;  ///< an entry of conv.bias

/// A gradient with a NaN on the last rank, in an entry that no block of 1 in 700 is likely to have.
std::vector<float> bad_gradient(const Worker& worker, std::uint32_t step) {
  auto gradient = pull_gradient(worker.model, worker.communicator.rank(), step);
  const bool culprit = worker.communicator.rank() == worker.communicator.size() - 1;
  if (culprit) gradient[kInBias] = std::numeric_limits<float>::quiet_NaN();
  return gradient;
}

TEST(BlockMethods, NameRankTensorAndStepOfANonfiniteValue) {
  for (const char* name : {"def", "def-a", "ef-rbgs", "psync"}) {
    for (const char* order : {"rank_order", "engine"}) {
      for (const int ranks : {1, 3}) {
        run_ranks(ranks, [&](Communicator& communicator) {
          Worker worker(method_row(name), {.ratio = 700, .order = order}, communicator, {.momentum = 0.9});
          worker.step(0);
          auto gradient = bad_gradient(worker, 7);
          const auto text = message_of<InvalidConfig>([&] {
            worker.method->step({key_of(communicator, 7), 0.05F}, worker.model, gradient);
          });
          EXPECT_TRUE(contains(text, "rank " + std::to_string(ranks - 1))) << text;
          EXPECT_TRUE(contains(text, "conv.bias") && contains(text, "step 7")) << name << " " << order << text;
        });
      }
    }
  }
}

TEST(BlockMethods, DropAStepEverywhereAndTouchNoMemory) {
  for (const char* name : {"def", "def-a", "ef-rbgs", "psync"}) {
    for (const char* order : {"rank_order", "engine"}) {
      run_ranks(3, [&](Communicator& communicator) {
        Worker worker(method_row(name), {.ratio = 700, .order = order}, communicator,
                      {.momentum = 0.9, .nesterov = true});
        worker.method->set_nonfinite_policy(NonfinitePolicy::skip);
        for (std::uint32_t step = 0; step < 3; ++step) worker.step(step);
        const auto memory = worker.method->save().to_bytes();
        const auto model = worker.model;
        auto gradient = bad_gradient(worker, 3);
        EXPECT_TRUE(worker.method->step({key_of(communicator, 3), 0.05F}, worker.model, gradient).skipped);
        EXPECT_EQ(worker.method->skipped_steps(), 1U);
        EXPECT_EQ(worker.method->save().to_bytes(), memory) << name;
        EXPECT_TRUE(worker.model == model);
        EXPECT_FALSE(worker.step(4).skipped);
      });
    }
  }
}

// Between meetings nobody else can know: only the worker concerned drops the step.
TEST(LocalSteps, OnlyTheWorkerConcernedDropsOne) {
  run_ranks(3, [](Communicator& communicator) {
    Worker worker(method_row("def"), {.ratio = 8, .local_steps = 3}, communicator);
    worker.method->set_nonfinite_policy(NonfinitePolicy::skip);
    const auto memory = worker.method->save().to_bytes();
    auto gradient = bad_gradient(worker, 0);
    const StepReport report = worker.method->step({key_of(communicator, 0), 0.05F}, worker.model, gradient);
    const bool culprit = communicator.rank() == 2;
    EXPECT_EQ(report.skipped, culprit);
    EXPECT_EQ(worker.method->save().to_bytes() == memory, culprit);
    EXPECT_EQ(report.traffic.sent_bytes, 0U);
    EXPECT_EQ(worker.step(1).rounds, 0U);
    EXPECT_EQ(worker.step(2).rounds, 1U);
    EXPECT_TRUE(same_everywhere(communicator, worker.read_out()));
  });
}

TEST(LocalSteps, AnErrorReachesTheOthersAtTheirNextMeeting) {
  const auto group = thread_communicators(2);
  run_ranks(2, [&](Communicator& communicator) {
    Worker worker(method_row("def"), {.ratio = 8, .local_steps = 2},
                  *group[static_cast<std::size_t>(communicator.rank())]);
    auto gradient = bad_gradient(worker, 0);
    const auto step = [&] { worker.method->step({key_of(communicator, 0), 0.05F}, worker.model, gradient); };
    std::string text;
    if (communicator.rank() == 1) {
      text = message_of<InvalidConfig>(step);
    } else {
      step();
      text = message_of<TransportError>([&] { worker.step(1); });
    }
    EXPECT_TRUE(contains(text, "rank 1") && contains(text, "conv.bias") && contains(text, "step 0")) << text;
  });
}

TEST(BlockMethods, ResumeBitForBitWithMomentumAndLocalSteps) {
  for (const std::uint32_t cut : {1U, 2U, 3U, 5U}) {
    run_ranks(2, [&](Communicator& communicator) {
      const MethodOptions options{.ratio = 8, .lambda = 0.4, .momentum = 0.9, .weight_decay = 0.01, .local_steps = 3};
      Worker straight(method_row("def"), options, communicator);
      for (std::uint32_t step = 0; step < cut; ++step) straight.step(step);
      const auto saved = straight.method->save().to_bytes();
      Worker resumed(method_row("def"), options, communicator);
      resumed.model = straight.model;
      resumed.method->load(State::from_bytes(saved));
      resumed.method->start(resumed.model);
      for (std::uint32_t step = cut; step < 8; ++step) {
        straight.step(step);
        resumed.step(step);
        ASSERT_TRUE(resumed.model == straight.model) << "cut at " << cut << " step " << step;
      }
      ASSERT_EQ(resumed.method->save().to_bytes(), straight.method->save().to_bytes());
    });
  }
}

// Three ranks become two or four: x, the mean of the residuals and the mean of the momenta are kept, on every rank.
TEST(BlockMethods, ResizeKeepsTheMeanOfWhatIsOwed) {
  for (const int next_size : {2, 4}) {
    const auto old_group = thread_communicators(3);
    const auto next_group = thread_communicators(next_size);
    run_ranks(4, [&](Communicator& everyone) {
      const int me = everyone.rank();
      const bool was = me < 3;
      const bool stays = me < next_size;
      Communicator* next = stays ? next_group[static_cast<std::size_t>(me)].get() : nullptr;
      const MethodOptions options{.ratio = 8, .momentum = 0.9};
      Place place({.threads = 1});
      const auto n = size_of(small_model());
      std::unique_ptr<ModelMethod> on_next;
      if (stays) {  // making is collective over the new group
        on_next = make_model_method("def", options, {}, *next, place);
        on_next->register_tensors(small_model());
      }
      std::unique_ptr<Worker> worker;
      std::vector<float> model(n);
      std::vector<float> owed(n, 0.0F);
      std::vector<float> momentum(n, 0.0F);
      std::vector<float> point(n, 0.0F);
      if (was) {
        worker = std::make_unique<Worker>(method_row("def"), options, *old_group[static_cast<std::size_t>(me)]);
        for (std::uint32_t step = 0; step < 4; ++step) worker->step(step);
        const State state = worker->method->save();
        state.get("residual", View<float>(owed));
        state.get("momentum", View<float>(momentum));
        state.get("point", View<float>(point));
        model = worker->model;
      }
      const auto owed_before = sum_everywhere(everyone, owed);
      const auto momentum_before = sum_everywhere(everyone, momentum);
      const auto point_before = sum_everywhere(everyone, point);
      if (!was && !stays) return;
      ModelMethod& method = was ? *worker->method : *on_next;
      method.resize(next);
      if (!stays) return;
      const State state = method.save();
      state.get("residual", View<float>(owed));
      state.get("momentum", View<float>(momentum));
      state.get("point", View<float>(point));
      method.start(model);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(owed[i], owed_before[i] / 3, 1e-6);
        ASSERT_NEAR(momentum[i], momentum_before[i] / 3, 1e-5);
        ASSERT_NEAR(point[i], point_before[i] / 3, 1e-6);
        ASSERT_NEAR(model[i], point[i] - 0.3F * owed[i], 1e-6);
      }
      auto gradient = pull_gradient(model, me, 4);
      method.step({{42, 4, static_cast<std::uint32_t>(me)}, 0.05F}, model, gradient);
      std::vector<float> out(n);
      method.read_out(model, out);
      EXPECT_TRUE(same_everywhere(*next, out));
    });
  }
}

TEST(BlockMethods, SettingsOfTheOptimizerStandInAndOthersAreRefused) {
  run_ranks(2, [](Communicator& communicator) {
    Worker own(method_row("def"), {.ratio = 8, .momentum = 0.9, .weight_decay = 0.01}, communicator);
    Worker other(method_row("def"), {.ratio = 8}, communicator, {.momentum = 0.9, .weight_decay = 0.01});
    Worker first(method_row("def"), {.ratio = 8, .momentum = 0.9, .weight_decay = 0.01}, communicator,
                 {.momentum = 0.1});
    for (std::uint32_t step = 0; step < 4; ++step) {
      own.step(step);
      other.step(step);
      first.step(step);
    }
    EXPECT_TRUE(own.model == other.model);
    EXPECT_TRUE(own.model == first.model);
    Place place({.threads = 1});
    const auto refusal = [&](const MethodOptions& options, const OptimizerOptions& optimizer) {
      return message_of<InvalidConfig>([&] { make_model_method("ef-rbgs", options, optimizer, communicator, place); });
    };
    EXPECT_TRUE(contains(refusal({.momentum = 0.5}, {.name = "adam"}), "adam takes no momentum"));
    const OptimizerOptions host{.name = "host", .host = [](View<const float>, View<float>) {}};
    EXPECT_TRUE(contains(refusal({.weight_decay = 0.5}, host), "weight_decay is the optimizer's, and the host brings"));
    EXPECT_TRUE(contains(refusal({}, {.nesterov = true}), "nesterov needs a momentum above 0"));
    EXPECT_TRUE(contains(refusal({}, {.momentum = 1.5}), "momentum must be in [0, 1), got 1.5"));
    EXPECT_NO_THROW(make_model_method("ef-rbgs", {.momentum = 0.9999995}, {}, communicator, place));
    EXPECT_TRUE(contains(refusal({.momentum = 1.0}, {}), "momentum must be in [0, 1), got 1"));
    EXPECT_TRUE(contains(refusal({.momentum = 0.99999999}, {}), "momentum must be in [0, 1), got 1")) << "as a float";
    EXPECT_TRUE(contains(refusal({.weight_decay = 1.0}, {}), "weight_decay must be in [0, 1), got 1"));
    EXPECT_TRUE(contains(refusal({.lambda = 0.3}, {}), "ef-rbgs has no parameter lambda"));
    EXPECT_TRUE(contains(refusal({.values = "f16", .order = "engine"}, {}), "order = engine takes values in f32 only"));
    const auto differing = refusal({}, {.momentum = communicator.rank() == 0 ? 0.9 : 0.8});
    EXPECT_TRUE(contains(differing, "rank 1") && contains(differing, "momentum")) << differing;
  });
}

TEST(BlockMethods, RefuseAStartThatDiffersBetweenRanks) {
  for (const char* name : {"def", "psync"}) {
    run_ranks(3, [&](Communicator& communicator) {
      Place place({.threads = 1});
      const auto method = make_model_method(name, {}, {}, communicator, place);
      std::vector<float> model(100, communicator.rank() == 2 ? 0.25F : 0.5F);
      const auto text = message_of<InvalidConfig>([&] { method->start(model); });
      EXPECT_TRUE(contains(text, "rank 2") && contains(text, "start point")) << text;
    });
  }
}

}  // namespace
}  // namespace laconic::test
