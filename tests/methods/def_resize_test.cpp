// DEF when ranks come and go, against a float64 model of the page whose workers go on from the mean of what they had.

#include <gtest/gtest.h>

#include <cstring>

#include "laconic/threads.h"
#include "methods/def_model.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr int kBefore = 2;
constexpr int kAfter = 3;
constexpr double kRatio = 8.0;
constexpr double kLambda = 0.4;
constexpr float kRate = 0.05F;
constexpr float kMomentum = 0.9F;

struct Case {
  std::uint32_t local_steps = 1;
  std::uint32_t resized_after = 4;  ///< steps
  bool by_tensor = false;           ///< the momentum comes with each step, not with the settings
};

Vector mean_of(const std::vector<Vector>& workers) {
  Vector mean(workers.front().size(), 0.0);
  for (const Vector& worker : workers) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += worker[i] / static_cast<double>(workers.size());
  }
  return mean;
}

/// All workers go on from the mean of each memory.
DefModel resized(const DefModel& before) {
  DefModel after(kAfter, before.x);
  after.lambda = before.lambda;
  after.momentum = before.momentum;
  after.e.assign(kAfter, mean_of(before.e));
  after.m.assign(kAfter, mean_of(before.m));
  after.delta.assign(kAfter, mean_of(before.delta));
  after.local.assign(kAfter, mean_of(before.local));
  return after;
}

void step(DefModel& model, const Case& the_case, std::uint32_t number) {
  const bool meets = (number + 1) % the_case.local_steps == 0;
  model.step(
      static_cast<double>(kRate), meets,
      [&](const Vector& point, int worker) { return pull_gradient64(point, worker, number); },
      [&](const Vector& p) { return random_block(small_model(), kRatio, true, number, p); });
}

void step(ModelMethod& method, const Case& the_case, Communicator& communicator, std::vector<float>& model,
          std::uint32_t number) {
  const std::vector<Coefficients> coefficients(small_model().size(), {kRate, kMomentum, 0.0F});
  auto gradient = pull_gradient(model, communicator.rank(), number);
  StepInput input{{42, number, static_cast<std::uint32_t>(communicator.rank())}, kRate};
  if (the_case.by_tensor) input.tensors = coefficients;
  method.step(input, model, gradient);
}

/// The model of each new rank after each step. The newcomer is rank 0 of the new group, the others move up.
std::vector<std::vector<std::vector<float>>> run(const Case& the_case, std::uint32_t steps) {
  std::vector<std::vector<std::vector<float>>> models(kAfter);
  const auto old_group = thread_communicators(kBefore);
  const auto next_group = thread_communicators(kAfter);
  run_ranks(kAfter, [&](Communicator& everyone) {
    Communicator& next = *next_group[static_cast<std::size_t>(everyone.rank())];
    next.set_timeout(Milliseconds(10'000));  // ranks that do not meet end soon
    const bool newcomer = next.rank() == 0;
    const auto alone = thread_communicators(1);
    Communicator& first = newcomer ? *alone[0] : *old_group[static_cast<std::size_t>(next.rank() - 1)];
    Place place({.threads = 1});
    const MethodOptions options{.ratio = kRatio, .lambda = kLambda, .local_steps = the_case.local_steps};
    const auto method = make_model_method(
        "def", options, {.momentum = the_case.by_tensor ? 0.0 : static_cast<double>(kMomentum)}, first, place);
    method->register_tensors(small_model());
    std::vector<float> model(size_of(small_model()), newcomer ? 99.0F : 0.5F);
    if (!newcomer) {
      method->start(model);
      for (std::uint32_t number = 0; number < the_case.resized_after; ++number) {
        step(*method, the_case, first, model, number);
      }
    }
    method->resize(&next);
    method->start(model);
    auto& own = models[static_cast<std::size_t>(next.rank())];
    own.push_back(model);
    for (std::uint32_t number = the_case.resized_after; number < steps; ++number) {
      step(*method, the_case, next, model, number);
      own.push_back(model);
    }
  });
  return models;
}

void check(const Case& the_case) {
  constexpr std::uint32_t kSteps = 12;
  const auto models = run(the_case, kSteps);
  DefModel before(kBefore, Vector(size_of(small_model()), 0.5));
  before.lambda = kLambda;
  before.momentum = static_cast<double>(kMomentum);
  for (std::uint32_t number = 0; number < the_case.resized_after; ++number) step(before, the_case, number);
  DefModel expected = resized(before);
  for (std::uint32_t number = the_case.resized_after; number <= kSteps; ++number) {
    for (std::size_t rank = 0; rank < models.size(); ++rank) {
      const auto& model = models[rank][number - the_case.resized_after];
      for (std::size_t i = 0; i < model.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(model[i]), expected.local[rank][i], 2e-5)
            << "rank " << rank << ", before step " << number << ", entry " << i;
      }
    }
    if (number < kSteps) step(expected, the_case, number);
  }
}

TEST(DefResize, GoesOnFromTheMeans) { check({}); }

// Ranks that have made steps keep a momentum, of which the newcomer's settings say nothing.
TEST(DefResize, ANewcomerLearnsOfAMomentumThatCameWithTheSteps) {
  check({.by_tensor = true});
  const auto by_tensor = run({.by_tensor = true}, 12);
  const auto by_settings = run({}, 12);
  for (std::size_t rank = 0; rank < by_tensor.size(); ++rank) {
    for (std::size_t i = 0; i < by_tensor[rank].size(); ++i) {
      ASSERT_EQ(std::memcmp(by_tensor[rank][i].data(), by_settings[rank][i].data(),
                            by_tensor[rank][i].size() * sizeof(float)),
                0)
          << "rank " << rank << ", " << i << " steps after the resize";
    }
  }
}

// Between two meetings a worker has moved away from x − λe: the mean of the workers' models is where all go on.
TEST(DefResize, GoesOnInTheMiddleOfAPeriod) {
  for (const std::uint32_t resized_after : {3U, 4U, 5U}) {
    SCOPED_TRACE(resized_after);
    check({.local_steps = 3, .resized_after = resized_after});
  }
}

TEST(DefResize, GoesOnInTheMiddleOfAPeriodWithAMomentumThatCameWithTheSteps) {
  check({.local_steps = 3, .by_tensor = true});
}

}  // namespace
}  // namespace laconic::test
