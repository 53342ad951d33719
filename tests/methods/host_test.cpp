// Hosts that bring their own optimizer, or SGD's coefficients tensor by tensor.

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "methods/optimizer.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr float kRate = 0.05F;

/// SGD with momentum as a host would run it, and how often it was asked to.
struct HostSgd {
  explicit HostSgd(std::uint64_t parameters) : optimizer({.momentum = 0.9, .nesterov = true}), place({.threads = 1}) {
    optimizer.prepare(place, parameters);
  }
  OptimizerOptions options() {
    return {.name = "host", .host = [this](View<const float> gradient, View<float> model) {
              optimizer.step(place, kRate, gradient, model);
              ++calls;
            }};
  }

  laconic::Optimizer optimizer;
  Place place;
  int calls = 0;
};

TEST(HostOptimizer, GivesTheBitsOfTheMethodsOwn) {
  for (const MethodRow& row : method_table()) {
    const std::string name = row.name;
    if (row.traits.is_sgd || name == "adam") continue;  // are an optimizer themselves
    run_ranks(3, [&](Communicator& communicator) {
      HostSgd host(size_of(small_model()));
      const auto options = small_options(row);
      Worker own(row, options, communicator, {.momentum = 0.9, .nesterov = true});
      Worker hosted(row, options, communicator, host.options());
      for (std::uint32_t step = 0; step < 10; ++step) {
        own.step(step);
        hosted.step(step);
        ASSERT_EQ(std::memcmp(own.model.data(), hosted.model.data(), own.model.size() * sizeof(float)), 0)
            << name << " step " << step;
      }
      EXPECT_EQ(host.calls, 10) << name;
    });
  }
}

TEST(HostOptimizer, IsNotCalledInADroppedStep) {
  for (const char* name : {"sgd", "topk", "psync", "localsgd", "def", "def-topk", "diloco"}) {
    run_ranks(3, [&](Communicator& communicator) {
      HostSgd host(size_of(small_model()));
      Worker worker(method_row(name), small_options(method_row(name)), communicator, host.options());
      worker.method->set_nonfinite_policy(NonfinitePolicy::skip);
      auto gradient = pull_gradient(worker.model, communicator.rank(), 0);
      if (communicator.rank() == 1) gradient[3] = std::numeric_limits<float>::infinity();
      const bool skipped = worker.method->step({key_of(communicator, 0), kRate}, worker.model, gradient).skipped;
      // A round method's steps are the worker's own business.
      const bool concerned = !method_row(name).traits.meets_in_rounds || communicator.rank() == 1;
      EXPECT_EQ(skipped, concerned) << name;
      EXPECT_EQ(host.calls, concerned ? 0 : 1) << name;
    });
  }
}

TEST(HostOptimizer, PsyncNamesRankAndTensor) {
  run_ranks(3, [](Communicator& communicator) {
    HostSgd host(size_of(small_model()));
    Worker worker(method_row("psync"), {.ratio = 8}, communicator, host.options());
    auto gradient = pull_gradient(worker.model, communicator.rank(), 0);
    if (communicator.rank() == 1) gradient[705] = std::numeric_limits<float>::quiet_NaN();
    const auto text = message_of<InvalidConfig>([&] {
      worker.method->step({key_of(communicator, 5), kRate}, worker.model, gradient);
    });
    EXPECT_TRUE(contains(text, "rank 1") && contains(text, "conv.bias") && contains(text, "step 5")) << text;
  });
}

/// A host's step cannot be taken back, so what it made of the model is no reason to drop it: all ranks end.
TEST(HostOptimizer, PsyncDropsNoStepThatTheHostHasMade) {
  for (const char* order : {"rank_order", "engine"}) {
    run_ranks(3, [&](Communicator& communicator) {
      int calls = 0;
      const OptimizerOptions host{.name = "host", .host = [&](View<const float>, View<float> model) {
                                    ++calls;
                                    if (communicator.rank() == 1) model[705] = std::numeric_limits<float>::infinity();
                                  }};
      Worker worker(method_row("psync"), {.ratio = 700, .order = order}, communicator, host);
      worker.method->set_nonfinite_policy(NonfinitePolicy::skip);
      auto gradient = pull_gradient(worker.model, communicator.rank(), 0);
      const auto text = message_of<InvalidConfig>([&] {
        worker.method->step({key_of(communicator, 5), kRate}, worker.model, gradient);
      });
      EXPECT_EQ(calls, 1);
      EXPECT_TRUE(contains(text, "rank 1") && contains(text, "conv.bias") && contains(text, "step 5")) << text;
      EXPECT_TRUE(contains(text, "optimizer")) << text;
      EXPECT_FALSE(contains(text, "policy to skip")) << text;
      EXPECT_EQ(worker.method->skipped_steps(), 0U);
    });
  }
}

TEST(HostOptimizer, NeedsItsFunction) {
  run_ranks(1, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto made = [&](const OptimizerOptions& options) {
      return message_of<InvalidConfig>([&] { make_model_method("sgd", {}, options, communicator, place); });
    };
    EXPECT_TRUE(contains(made({.name = "host"}), "without one"));
    HostSgd host(1);
    auto options = host.options();
    options.name = "sgd";
    EXPECT_TRUE(contains(made(options), "with one"));
  });
}

/// Ratio 1 sends everything, so that def is SGD with the workers' momenta averaged: the formula, operation by
/// operation.
TEST(DefCoefficients, MoveEachTensorByItsOwn) {
  const std::vector<Coefficients> first{
      {0.1F, 0.9F, 0.0F, true}, {0.1F, 0.9F, 0.0F}, {0.02F, 0.0F, 0.01F, true}, {0.0F, 0.5F, 0.0F}};
  const std::vector<Coefficients> second{
      {0.01F, 0.8F, 0.0F}, {0.1F, 0.9F, 0.0F}, {0.02F, 0.9F, 0.0F}, {0.2F, 0.5F, 0.1F, true}};
  run_ranks(1, [&](Communicator& communicator) {
    Worker worker(method_row("def"), {.ratio = 1}, communicator);
    auto expected = worker.model;
    std::vector<float> momentum(expected.size(), 0.0F);
    for (std::uint32_t step = 0; step < 8; ++step) {
      const auto& coefficients = step < 4 ? first : second;
      auto gradient = pull_gradient(worker.model, 0, step);
      std::size_t i = 0;
      for (std::size_t tensor = 0; tensor < coefficients.size(); ++tensor) {
        const auto [rate, beta, decay, nesterov] = coefficients[tensor];
        for (const std::size_t end = i + small_model()[tensor].size; i < end; ++i) {
          float direction = gradient[i];
          if (decay != 0.0F) direction = direction + decay * expected[i];
          if (beta != 0.0F) {
            momentum[i] = beta * momentum[i] + direction;
            direction = nesterov ? direction + beta * momentum[i] : momentum[i];
          }
          expected[i] = expected[i] - rate * direction;
        }
      }
      worker.method->step({.key = key_of(communicator, step), .tensors = coefficients}, worker.model, gradient);
      for (i = 0; i < expected.size(); ++i) ASSERT_EQ(worker.model[i], expected[i]) << "step " << step << " at " << i;
    }
  });
}

/// Coefficients that are all alike give the bits of the settings; a run that is cut goes on, also where momentum comes
/// only later.
TEST(DefCoefficients, EqualSettingsAndSurviveAResume) {
  for (const double local_steps : {1.0, 3.0}) {
    run_ranks(3, [&](Communicator& communicator) {
      const MethodOptions options{.ratio = 8, .local_steps = local_steps};
      Worker settings(method_row("def-a"), options, communicator, {.momentum = 0.9, .weight_decay = 0.01});
      Worker by_tensor(method_row("def-a"), options, communicator);
      const std::vector<Coefficients> alike(small_model().size(), {kRate, 0.9F, 0.01F});
      const auto step = [&](Worker& worker, std::uint32_t number, std::span<const Coefficients> coefficients) {
        auto gradient = pull_gradient(worker.model, communicator.rank(), number);
        worker.method->step({.key = key_of(communicator, number), .tensors = coefficients}, worker.model, gradient);
      };
      for (std::uint32_t number = 0; number < 7; ++number) {
        settings.step(number);
        step(by_tensor, number, alike);
        ASSERT_EQ(settings.model, by_tensor.model) << number;
      }
      Worker resumed(method_row("def-a"), options, communicator);
      resumed.method->load(by_tensor.method->save());
      resumed.model = by_tensor.model;
      resumed.method->start(resumed.model);
      for (std::uint32_t number = 7; number < 12; ++number) {
        step(by_tensor, number, alike);
        step(resumed, number, alike);
        ASSERT_EQ(resumed.model, by_tensor.model) << number;
      }
    });
  }
}

TEST(DefCoefficients, AreRefusedOutOfRangeAndElsewhere) {
  run_ranks(1, [](Communicator& communicator) {
    const auto refused = [&](const char* method, std::vector<Coefficients> coefficients) {
      Worker worker(method_row(method), {}, communicator);
      auto gradient = worker.model;
      return message_of<InvalidConfig>([&] {
        worker.method->step({.key = key_of(communicator, 0), .tensors = coefficients}, worker.model, gradient);
      });
    };
    EXPECT_TRUE(contains(refused("def", {{}, {}, {0.1F, 1.5F, 0.0F}, {}}), "momentum of tensor fc.weight"));
    EXPECT_TRUE(contains(refused("def", {{}, {-1.0F, 0.0F, 0.0F}, {}, {}}), "learning_rate of tensor conv.bias"));
    EXPECT_TRUE(contains(refused("def", {{}, {}}), "coefficients"));
    EXPECT_TRUE(contains(refused("sgd", {{}, {}, {}, {}}), "no coefficients"));
  });
}

}  // namespace
}  // namespace laconic::test
