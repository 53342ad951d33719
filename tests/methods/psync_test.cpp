// PSync against the page: trajectory in float64, the full block, what is read out.

#include <gtest/gtest.h>

#include <cmath>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/def_model.h"
#include "support/support.h"

namespace laconic::test {
namespace {

TEST(Psync, FollowsThePage) {
  for (const char* scope : {"tensor", "model"}) {
    for (const char* order : {"rank_order", "engine"}) {
      run_ranks(3, [&](Communicator& communicator) {
        Worker worker(method_row("psync"), {.ratio = 8, .scope = scope, .order = order}, communicator,
                      {.momentum = 0.9, .weight_decay = 0.01});
        const auto n = worker.model.size();
        std::vector<Vector> models(3, Vector(n, 0.5));
        std::vector<Vector> momenta(3, Vector(n, 0.0));
        for (std::uint32_t step = 0; step < 50; ++step) {
          worker.step(step);
          for (int k = 0; k < 3; ++k) {
            Vector& x = models[static_cast<std::size_t>(k)];
            Vector& m = momenta[static_cast<std::size_t>(k)];
            const Vector g = pull_gradient64(x, k, step);
            for (std::size_t i = 0; i < n; ++i) {
              m[i] = 0.9 * m[i] + g[i] + 0.01 * x[i];
              x[i] -= 0.05 * m[i];
            }
          }
          const Vector block = random_block(small_model(), 8, std::string(scope) == "tensor", step, Vector(n, 1.0));
          Vector mean(n);
          for (std::size_t i = 0; i < n; ++i) {
            mean[i] = (models[0][i] + models[1][i] + models[2][i]) / 3;
            for (Vector& x : models) x[i] = block[i] != 0.0 ? mean[i] : x[i];
          }
          const auto read = worker.read_out();
          const Vector& mine = models[static_cast<std::size_t>(communicator.rank())];
          for (std::size_t i = 0; i < n; ++i) {
            ASSERT_NEAR(static_cast<double>(worker.model[i]), mine[i], 3e-5) << "step " << step << " entry " << i;
            ASSERT_NEAR(static_cast<double>(read[i]), mean[i], 3e-5) << "step " << step << " entry " << i;
          }
        }
      });
    }
  }
}

// A block moves the models together and their mean not at all: exact for integers and W a power of two.
TEST(Psync, AveragingKeepsTheMean) {
  run_ranks(4, [](Communicator& communicator) {
    Worker worker(method_row("psync"), {.ratio = 8}, communicator);
    const auto n = worker.model.size();
    Vector mean(n, 0.5);
    for (std::uint32_t step = 0; step < 4; ++step) {
      auto gradient = integer_gradient(n, communicator.rank(), step);
      const auto sum = sum_everywhere(communicator, gradient);
      worker.method->step({{42, step, static_cast<std::uint32_t>(communicator.rank())}, 0.5F}, worker.model, gradient);
      const auto read = worker.read_out();
      const Vector block = random_block(small_model(), 8, true, step, Vector(n, 1.0));
      for (std::size_t i = 0; i < n; ++i) {
        mean[i] -= 0.5 * sum[i] / 4;
        ASSERT_EQ(static_cast<double>(read[i]), mean[i]) << "step " << step << " entry " << i;
        if (block[i] != 0.0) {
          ASSERT_EQ(worker.model[i], read[i]);
        }
      }
      ASSERT_FALSE(same_everywhere(communicator, worker.model));
    }
  });
}

TEST(Psync, WithTheWholeModelAveragedAllAreOne) {
  run_ranks(3, [](Communicator& communicator) {
    Worker worker(method_row("psync"), {.ratio = 1}, communicator, {.name = "adam"});
    for (std::uint32_t step = 0; step < 5; ++step) {
      worker.step(step);
      ASSERT_TRUE(same_everywhere(communicator, worker.model));
    }
  });
}

TEST(Psync, ADroppedStepLeavesTheOptimizerAsItWas) {
  for (const char* order : {"rank_order", "engine"}) {
    run_ranks(2, [&](Communicator& communicator) {
      Worker worker(method_row("psync"), {.ratio = 8, .order = order}, communicator, {.name = "adam"});
      worker.method->set_nonfinite_policy(NonfinitePolicy::skip);
      worker.step(0);
      const auto before = worker.method->save().to_bytes();
      const auto model = worker.model;
      auto gradient = pull_gradient(worker.model, communicator.rank(), 1);
      if (communicator.rank() == 1) gradient[7] = std::nanf("");
      EXPECT_TRUE(worker.method->step({{42, 1}, 0.05F, 1.0F}, worker.model, gradient).skipped);
      EXPECT_EQ(worker.method->save().to_bytes(), before);
      EXPECT_EQ(worker.model, model);
    });
  }
}

// A newcomer has the mean of the momenta and Adam's count of steps, so it moves as the others do from the same model.
TEST(Psync, NewcomerTakesTheOptimizerOver) {
  const auto old_group = thread_communicators(2);
  run_ranks(3, [&](Communicator& communicator) {
    const bool newcomer = communicator.rank() == 2;
    Communicator& first = newcomer ? communicator : *old_group[static_cast<std::size_t>(communicator.rank())];
    Place place({.threads = 1});
    std::vector<float> model(size_of(small_model()), 0.5F);
    std::unique_ptr<ModelMethod> method;
    const auto make = [&](Communicator& group) {
      // Making is collective, which a newcomer alone on the new group would wait for: all make it there.
      auto made = make_model_method("psync", {.ratio = 8}, {.name = "adam"}, group, place);
      made->register_tensors(small_model());
      return made;
    };
    auto on_new = make(communicator);
    if (!newcomer) {
      method = make(first);
      method->start(model);
      for (std::uint32_t step = 0; step < 3; ++step) {
        auto gradient = pull_gradient(model, communicator.rank(), step);
        method->step({{42, step, static_cast<std::uint32_t>(communicator.rank())}, 0.05F}, model, gradient);
      }
      std::vector<float> mean(model.size());
      method->read_out(model, mean);
      model = mean;
    } else {
      method = std::move(on_new);
    }
    communicator.broadcast(as_writable_bytes(View<float>(model)), 0).wait();
    method->resize(&communicator);
    method->start(model);
    EXPECT_EQ(method->residual_norm(), 0.0);
    // The same gradient for all: whoever had other moments or another count of steps would move elsewhere.
    auto gradient = pull_gradient(model, 0, 3);
    method->step({{42, 3, static_cast<std::uint32_t>(communicator.rank())}, 0.05F}, model, gradient);
    EXPECT_TRUE(same_everywhere(communicator, model));
  });
}

}  // namespace
}  // namespace laconic::test
