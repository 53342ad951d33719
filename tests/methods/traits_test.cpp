// The traits of a row are what the method does.

#include <gtest/gtest.h>

#include <algorithm>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "methods/optimizer.h"
#include "support/method_names.h"
#include "support/support.h"

namespace laconic::test {
namespace {

class TraitsOf : public testing::TestWithParam<std::string> {
 protected:
  const MethodRow& row() const { return method_row(GetParam()); }
  const Traits& traits() const { return row().traits; }
  bool has_parameter(std::string_view name) const { return row().has_parameter(name); }
  /// What making the method with that optimizer throws, or empty.
  std::string refusal(const char* optimizer) const {
    const auto alone = thread_communicators(1);
    Place place({.threads = 1});
    try {
      make_model_method(row().name, small_options(row()), {.name = optimizer}, *alone.front(), place);
    } catch (const InvalidConfig& error) {
      return error.what();
    }
    return {};
  }
};

INSTANTIATE_TEST_SUITE_P(Table, TraitsOf, testing::ValuesIn(method_names()),
                         [](const auto& test) { return test_name(test.param); });

TEST_P(TraitsOf, AResidualIsKeptOrNot) {
  double norm = 0.0;
  run_ranks(2, [&](Communicator& communicator) {
    Worker worker(row(), small_options(row()), communicator);
    for (std::uint32_t step = 0; step < 3; ++step) worker.step(step);
    if (communicator.rank() == 0) norm = worker.method->residual_norm();
  });
  EXPECT_EQ(norm > 0.0, traits().keeps_residual) << norm;
}

TEST_P(TraitsOf, SgdItselfTakesNoOtherOptimizer) {
  EXPECT_EQ(refusal("sgd"), "");
  EXPECT_EQ(contains(refusal("adam"), "takes optimizer sgd only"), traits().is_sgd) << refusal("adam");
  EXPECT_EQ(has_parameter("weight_decay"), traits().is_sgd);
}

TEST_P(TraitsOf, AFixedOptimizerStandsInForAnother) {
  const std::string name = optimizer_of(row(), {.name = "sgd"}).name;
  EXPECT_EQ(name, row().fixes_optimizer() ? traits().optimizer : "sgd");
  EXPECT_NO_THROW(optimizer_kind(name));
  EXPECT_EQ(optimizer_of(row(), {.name = "host"}).name, "host") << "a host brings its own";
}

TEST_P(TraitsOf, RoundsHaveTheirParameters) {
  EXPECT_EQ(has_parameter("period"), traits().meets_in_rounds);
  EXPECT_EQ(has_parameter("proximity"), traits().pulls_every_step);
  EXPECT_EQ(has_parameter("score"), traits().takes_scoring);
}

TEST_P(TraitsOf, TheLossIsNeededOrNot) {
  std::string refused;
  run_ranks(1, [&](Communicator& communicator) {
    Worker worker(row(), small_options(row()), communicator);
    worker.method->set_scoring([](View<const float> point, View<float> gradient) {
      std::copy(point.begin(), point.end(), gradient.begin());
    });
    try {
      for (std::uint32_t step = 0; step < 20; ++step) {
        std::vector<float> gradient = pull_gradient(worker.model, 0, step);
        worker.method->step({.key = {1, step, 0}, .learning_rate = 0.01F}, worker.model, gradient);
      }
    } catch (const InvalidConfig& error) {
      refused = error.what();
    }
  });
  EXPECT_EQ(contains(refused, "loss"), traits().needs_loss) << refused;
}

}  // namespace
}  // namespace laconic::test
