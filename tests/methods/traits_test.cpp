// The traits of a row are what the method does.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

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

double residual_norm(const MethodRow& row, const MethodOptions& options) {
  double norm = 0.0;
  run_ranks(2, [&](Communicator& communicator) {
    Worker worker(row, options, communicator);
    for (std::uint32_t step = 0; step < 5; ++step) worker.step(step);
    if (communicator.rank() == 0) norm = worker.method->residual_norm();
  });
  return norm;
}

TEST_P(TraitsOf, AResidualIsKeptOrNot) {
  MethodOptions options = small_options(row());
  EXPECT_EQ(residual_norm(row(), options) > 0.0, traits().keeps_residual);
  EXPECT_EQ(row().keeps_residual(options), traits().keeps_residual);
  if (sends_all(row())) {
    for (const char* values : {"bf16", "sign"}) {
      options.values = values;
      EXPECT_GT(residual_norm(row(), options), 0.0) << values;
      EXPECT_TRUE(row().keeps_residual(options)) << values;
    }
    EXPECT_TRUE(row().keeps_residual({.keep = 0.5}));
  }
  if (!row().has_parameter("memory")) return;
  options.rounding = "stochastic";
  for (const char* memory : {"none", "error"}) {
    options.memory = memory;
    EXPECT_EQ(residual_norm(row(), options) > 0.0, row().keeps_residual(options)) << memory;
  }
  EXPECT_TRUE(row().keeps_residual(options));
}

TEST_P(TraitsOf, EveryOptimizerIsTaken) {
  for (const char* optimizer : {"sgd", "adam", "adamw"}) EXPECT_EQ(refusal(optimizer), "");
}

/// A step on one rank, with coefficients or factors per tensor. Returns what it throws, or empty.
std::string step_refusal(const MethodRow& row, const OptimizerOptions& optimizer,
                         const std::function<void(StepInput&)>& give) {
  std::string refused;
  run_ranks(1, [&](Communicator& communicator) {
    Worker worker(row, small_options(row), communicator, optimizer);
    std::vector<float> gradient = pull_gradient(worker.model, 0, 0);
    StepInput input{.key = {1, 0, 0}, .learning_rate = 0.01F, .loss = 1.0F};
    give(input);
    try {
      worker.method->step(input, worker.model, gradient);
    } catch (const InvalidConfig& error) {
      refused = error.what();
    }
  });
  return refused;
}

TEST_P(TraitsOf, SgdItselfTakesCoefficients) {
  const std::vector<Coefficients> coefficients(small_model().size(), {.learning_rate = 0.01F});
  const auto give = [&](StepInput& input) { input.tensors = coefficients; };
  EXPECT_EQ(step_refusal(row(), {}, give).empty(), traits().is_sgd);
  EXPECT_FALSE(step_refusal(row(), {.name = "adam"}, give).empty());
  EXPECT_EQ(has_parameter("weight_decay"), traits().is_sgd);
}

TEST_P(TraitsOf, UpdatesOfAHostTakeShrinkFactors) {
  const OptimizerOptions host{.name = "host", .host = [](View<const float>, View<float>) {}};
  const std::vector<float> shrink(small_model().size(), 0.999F);
  const auto give = [&](StepInput& input) { input.shrink = shrink; };
  EXPECT_EQ(step_refusal(row(), host, give).empty(), traits().sends_updates);
  EXPECT_TRUE(contains(step_refusal(row(), {}, give), "takes no shrink factors"));
}

TEST_P(TraitsOf, AFixedOptimizerStandsInForAnother) {
  const std::string name = optimizer_of(row(), {.name = "sgd"}).name;
  EXPECT_EQ(name, row().fixes_optimizer() ? traits().optimizer : "sgd");
  EXPECT_NO_THROW(optimizer_kind(name));
  EXPECT_EQ(optimizer_of(row(), {.name = "host"}).name, "host") << "a host brings its own";
}

TEST_P(TraitsOf, RoundsHaveTheirParameters) {
  const Parameter* period = row().find_parameter("period");
  EXPECT_EQ(period != nullptr && period->fallback != "1", traits().meets_in_rounds);
  EXPECT_EQ(has_parameter("proximity"), traits().pulls_every_step);
  EXPECT_EQ(has_parameter("score"), traits().takes_scoring);
}

/// A worker after some steps, as it would be saved.
struct Saved {
  std::vector<float> model;
  State memory;
};

/// By rank, of a run on two ranks with other gradients for another seed. Long enough for a round.
std::vector<Saved> saved_run(const MethodRow& row, std::uint32_t seed) {
  std::vector<Saved> saved(2);
  run_ranks(2, [&](Communicator& communicator) {
    Worker worker(row, small_options(row), communicator);
    for (std::uint32_t step = 0; step < 5; ++step) {
      std::vector<float> gradient = pull_gradient(worker.model, communicator.rank(), step + 100 * seed);
      worker.method->step({.key = {1, step, 0}, .learning_rate = 0.05F, .loss = 1.0F}, worker.model, gradient);
    }
    saved[static_cast<std::size_t>(communicator.rank())] = {worker.model, worker.method->save()};
  });
  return saved;
}

/// What start() throws if ranks go on from these, or empty.
std::string start_refusal(const MethodRow& row, const std::vector<Saved>& saved) {
  std::string refused;
  run_ranks(2, [&](Communicator& communicator) {
    const Saved& mine = saved[static_cast<std::size_t>(communicator.rank())];
    Place place({.threads = 1});
    auto method = make_model_method(row.name, small_options(row), {}, communicator, place);
    method->register_tensors(small_model());
    method->load(mine.memory);
    std::vector<float> model = mine.model;
    try {
      method->start(model);
    } catch (const InvalidConfig& error) {
      if (communicator.rank() == 0) refused = error.what();
    }
  });
  return refused;
}

TEST_P(TraitsOf, StartComparesWhatRanksHaveInCommon) {
  const std::vector<Saved> saved = saved_run(row(), 0);
  EXPECT_EQ(start_refusal(row(), saved), "");
  std::vector<Saved> moved = saved;
  moved[1].model[0] += 1.0F;
  EXPECT_EQ(contains(start_refusal(row(), moved), "checksum of the start point"), traits().common == Common::model)
      << start_refusal(row(), moved);
  const std::string other_run = start_refusal(row(), {saved[0], saved_run(row(), 1)[1]});
  EXPECT_EQ(contains(other_run, "checksum of the start point"), traits().common == Common::model) << other_run;
  EXPECT_EQ(contains(other_run, "the point without errors"), traits().common == Common::point) << other_run;
  EXPECT_EQ(contains(other_run, "checksum of the centre"), traits().common == Common::centre) << other_run;
  EXPECT_EQ(other_run.empty(), traits().common == Common::start) << other_run;
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
