// The round methods in lockstep: trajectories against the pages' formulas in float64, weights, leaders, edges.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "laconic/error.h"
#include "laconic/nonfinite.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "methods/rounds_model.h"
#include "support/support.h"

namespace laconic::test {
namespace {

std::vector<float> centre_of(const ModelMethod& method, std::size_t n) {
  std::vector<float> centre(n);
  method.save().get("centre", centre);
  return centre;
}

class Trajectory : public testing::TestWithParam<RoundSettings> {};

INSTANTIATE_TEST_SUITE_P(
    Rounds, Trajectory,
    testing::Values(RoundSettings{.method = "localsgd"}, RoundSettings{.method = "easgd", .pull = 0.43},
                    RoundSettings{.method = "lsgd", .pull = 0.1, .proximity = 0.1}, RoundSettings{.method = "mgrawa"},
                    RoundSettings{.method = "lgrawa"}, RoundSettings{.method = "mgrawa", .local_scores = true},
                    RoundSettings{.method = "lgrawa", .smoothing = 0.0, .local_scores = true},
                    RoundSettings{.method = "lgrawa", .period = 7, .pull = 0.7, .proximity = 0.5}),
    [](const auto& test) {
      return test.param.method + (test.param.local_scores ? "_local" : "") + "_" + std::to_string(test.index);
    });

TEST_P(Trajectory, FollowsTheFloat64ModelOfThePage) {
  const RoundSettings& settings = GetParam();
  run_ranks(3, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto tensors = small_model();
    const auto method = make_model_method(settings.method, options_of(settings),
                                          {.momentum = settings.momentum, .nesterov = true}, communicator, place);
    method->register_tensors(tensors);
    method->set_scoring(score_on_shared_batch);
    std::vector<float> model(size_of(tensors), 0.5F);
    method->start(model);
    RoundModel expected(settings, communicator.size(), tensors, 0.5);
    const auto& point = expected.model(communicator.rank());
    for (std::uint32_t step = 0; step < 50; ++step) {
      auto gradient = quadratic_gradient(View<const float>(model), communicator.rank(), step);
      const float loss = reported_loss(communicator.rank(), step);
      const StepReport report =
          method->step({key_of(communicator, step), static_cast<float>(settings.learning_rate), loss}, model, gradient);
      const std::uint64_t rounds_before = expected.rounds();
      expected.step(step);
      ASSERT_EQ(report.rounds, expected.rounds() - rounds_before) << "step " << step;
      for (std::size_t i = 0; i < model.size(); ++i) ASSERT_NEAR(model[i], point[i], 2e-5) << "step " << step;
      const auto centre = centre_of(*method, model.size());
      for (std::size_t i = 0; i < model.size(); ++i) ASSERT_NEAR(centre[i], expected.centre()[i], 2e-5);
      if (report.rounds == 0) continue;
      ASSERT_TRUE(same_everywhere(communicator, centre)) << "step " << step;
      if (settings.method == "lsgd") {
        ASSERT_EQ(report.extra, expected.leader()) << "step " << step;
      }
      if (settings.method.ends_with("grawa")) {
        double weight = 0.0;
        const auto& weights = expected.weights()[static_cast<std::size_t>(communicator.rank())];
        for (const double each : weights) weight += each / static_cast<double>(weights.size());
        ASSERT_NEAR(report.extra, weight, 1e-6);
      }
    }
    EXPECT_GE(expected.rounds(), 7U);
  });
}

/// Workers of two layers, one parameter each; a round a step, no local movement, scores by the given function.
struct Meeting {
  Meeting(const std::string& name, Communicator& the_communicator, MethodOptions options, std::vector<float> start = {})
      : communicator(the_communicator),
        method(make_model_method(name, with_period_one(std::move(options)), {}, communicator, place)) {
    const std::vector<Tensor> layers{{"first", 1}, {"second", 1}};
    method->register_tensors(layers);
    std::vector<float> common(2, 0.0F);
    method->start(common);
    model = start.empty() ? common : std::move(start);  // the model is the host's: workers may be moved apart
  }

  static MethodOptions with_period_one(MethodOptions options) {
    options.period = 1;
    return options;
  }

  StepReport round(float loss = 0.0F) {
    std::vector<float> gradient(2, 0.0F);
    return method->step({key_of(communicator, number++), 1.0F, loss}, model, gradient);
  }

  Communicator& communicator;
  Place place{{.threads = 1}};
  std::unique_ptr<ModelMethod> method;
  std::vector<float> model;
  std::uint32_t number = 0;
};

const MethodOptions kPlainScores{.pull = 1.0, .proximity = 0.0, .smoothing = 0.0};

TEST(GrawaWeights, AreTheInversesOfNormsByModelAndByLayer) {
  run_ranks(2, [](Communicator& communicator) {
    const bool first = communicator.rank() == 0;
    const std::vector<float> start(2, first ? 4.0F : 8.0F);
    // Norms: rank 0 has 1 and 3, rank 1 has 3 and 9: A = 4 and 12, so the weights are 3/4 and 1/4, also by layer.
    Meeting by_model("mgrawa", communicator, kPlainScores, start);
    by_model.method->set_scoring([&](View<const float>, View<float> gradient) {
      gradient[0] = first ? -1.0F : 3.0F;
      gradient[1] = first ? 3.0F : -9.0F;
    });
    EXPECT_FLOAT_EQ(static_cast<float>(by_model.round().extra), first ? 0.75F : 0.25F);
    for (const float value : by_model.model) EXPECT_FLOAT_EQ(value, 5.0F);
    // By layer the weights may go opposite ways: 1 against 3, and 9 against 3.
    Meeting by_layer("lgrawa", communicator, kPlainScores, start);
    by_layer.method->set_scoring([&](View<const float>, View<float> gradient) {
      gradient[0] = first ? 1.0F : 3.0F;
      gradient[1] = first ? 9.0F : 3.0F;
    });
    by_layer.round();
    EXPECT_FLOAT_EQ(by_layer.model[0], 5.0F);
    EXPECT_FLOAT_EQ(by_layer.model[1], 7.0F);
  });
}

TEST(GrawaWeights, AreSmoothedOverRoundsAndCorrected) {
  run_ranks(2, [](Communicator& communicator) {
    const bool first = communicator.rank() == 0;
    Meeting meeting("mgrawa", communicator, {.pull = 0.0, .proximity = 0.0, .smoothing = 0.5});
    float norm = 0.0F;
    meeting.method->set_scoring([&](View<const float>, View<float> gradient) {
      gradient[0] = norm;
      gradient[1] = 0.0F;
    });
    // First round: corrected, s is the norm itself, 1 against 3.
    norm = first ? 1.0F : 3.0F;
    EXPECT_NEAR(meeting.round().extra, first ? 0.75 : 0.25, 1e-7);
    // Second: (s·0.5 + A·0.5) / (1 - 0.25): rank 0 (0.25 + 2.5)/0.75, rank 1 (0.75 + 0.5)/0.75.
    norm = first ? 5.0F : 1.0F;
    const double mine = 1.0 / (first ? 2.75 : 1.25);
    const double other = 1.0 / (first ? 1.25 : 2.75);
    EXPECT_NEAR(meeting.round().extra, mine / (mine + other), 1e-7);
  });
}

// Workers that were scored in other numbers of rounds are weighed alike only if each is corrected by its own number.
TEST(GrawaWeights, AreCorrectedByEachWorkersOwnRounds) {
  run_ranks(2, [](Communicator& communicator) {
    const bool late = communicator.rank() == 1;
    Meeting meeting("mgrawa", communicator, {.proximity = 0.0, .smoothing = 0.5, .score = "local"});
    meeting.method->set_nonfinite_policy(NonfinitePolicy::skip);
    for (std::uint32_t step = 0; step < 2; ++step) {
      std::vector<float> gradient(2, late && step == 0 ? std::nanf("") : 1.0F);
      const StepReport report =
          meeting.method->step({key_of(communicator, step), 0.0F, 1.0F}, meeting.model, gradient);
      EXPECT_NEAR(report.extra, step == 1 ? 0.5 : late ? 0.0 : 1.0, 1e-6) << "round " << step;
    }
  });
}

TEST(GrawaWeights, OfZeroNormsAreFinite) {
  run_ranks(3, [](Communicator& communicator) {
    const std::vector<float> start(2, static_cast<float>(communicator.rank()));
    for (const std::string name : {"mgrawa", "lgrawa"}) {
      Meeting all_zero(name, communicator, kPlainScores, start);
      all_zero.method->set_scoring([](View<const float>, View<float> gradient) { gradient[0] = gradient[1] = 0.0F; });
      EXPECT_NEAR(all_zero.round().extra, 1.0 / 3.0, 1e-7);
      for (const float value : all_zero.model) EXPECT_NEAR(value, 1.0F, 1e-6);
      Meeting one_zero(name, communicator, kPlainScores, start);
      one_zero.method->set_scoring([&](View<const float>, View<float> gradient) {
        gradient[0] = gradient[1] = communicator.rank() == 2 ? 0.0F : 1.0F;
      });
      one_zero.round();
      for (const float value : one_zero.model) EXPECT_NEAR(value, 2.0F, 1e-6);
    }
  });
}

TEST(GrawaWeights, WithoutAnyLocalScoreArePlain) {
  run_ranks(2, [](Communicator& communicator) {
    MethodOptions options = kPlainScores;
    options.score = "local";
    Meeting meeting("lgrawa", communicator, options, {communicator.rank() == 0 ? 2.0F : 4.0F, 6.0F});
    meeting.method->set_nonfinite_policy(NonfinitePolicy::skip);
    std::vector<float> gradient(2, std::nanf(""));
    meeting.method->step({key_of(communicator, 0), 1.0F}, meeting.model, gradient);
    EXPECT_EQ(meeting.model, (std::vector<float>{3.0F, 6.0F}));
  });
}

TEST(Grawa, NeedsAScoringFunctionOrLocalScores) {
  run_ranks(2, [](Communicator& communicator) {
    Meeting meeting("mgrawa", communicator, kPlainScores);
    const auto text = message_of<InvalidConfig>([&] { meeting.round(); });
    EXPECT_TRUE(contains(text, "set_scoring()") && contains(text, "score = local")) << text;
  });
}

TEST(Grawa, DropsARoundWhoseScoreIsNotFiniteEverywhere) {
  run_ranks(3, [](Communicator& communicator) {
    const std::vector<float> start{static_cast<float>(communicator.rank()), 1.0F};
    for (const bool skip : {true, false}) {
      Meeting meeting("lgrawa", communicator, kPlainScores, start);
      meeting.method->set_scoring([&](View<const float>, View<float> gradient) {
        gradient[0] = 1.0F;
        gradient[1] = communicator.rank() == 1 ? std::numeric_limits<float>::infinity() : 1.0F;
      });
      if (skip) meeting.method->set_nonfinite_policy(NonfinitePolicy::skip);
      const auto before = centre_of(*meeting.method, 2);
      StepReport report;
      const auto text = message_of<InvalidConfig>([&] { report = meeting.round(); });
      EXPECT_EQ(meeting.model, start);
      EXPECT_EQ(centre_of(*meeting.method, 2), before);
      EXPECT_EQ(report.skipped, skip);
      EXPECT_EQ(meeting.method->skipped_steps(), skip ? 1U : 0U);
      EXPECT_EQ(contains(text, "rank 1") && contains(text, "round 0"), !skip) << text;
      EXPECT_EQ(contains(text, "tensor second") && contains(text, "step 0"), !skip) << text;
    }
  });
}

/// The local steps are finite, the model is not: every rank names the rank, its tensor and its step.
TEST(Rounds, NameRankTensorAndStepOfAModelThatIsNotFinite) {
  for (const char* name : {"mgrawa", "lgrawa", "easgd", "lsgd", "localsgd"}) {
    run_ranks(3, [&](Communicator& communicator) {
      Worker worker(method_row(name), small_options(method_row(name)), communicator);
      for (std::uint32_t step = 0; step < 7; ++step) worker.step(step);
      if (communicator.rank() == 1) worker.model[705] = std::numeric_limits<float>::infinity();
      std::vector<float> gradient(worker.model.size(), 0.0F);
      // The leader of lsgd is the one whose model travels.
      const float loss = communicator.rank() == 1 ? -100.0F : 1.0F;
      const auto text = message_of<InvalidConfig>([&] {
        worker.method->step({key_of(communicator, 107), 0.05F, loss}, worker.model, gradient);
      });
      EXPECT_TRUE(contains(text, std::string(name) + ": rank 1 has")) << text;
      EXPECT_TRUE(contains(text, "tensor conv.bias") && contains(text, "step 107") && contains(text, "round 1"))
          << text;
    });
  }
}

TEST(Leader, IsTheLowestRankAmongEqualLosses) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<std::vector<float>, int>> cases{
      {{1, 1, 1}, 0}, {{2, 1, 1}, 1}, {{3, 2, 1}, 2}, {{inf, 5, 5}, 1}, {{inf, inf, 9}, 2}, {{inf, inf, inf}, 0}};
  run_ranks(3, [&](Communicator& communicator) {
    Meeting meeting("lsgd", communicator, {.pull = 1.0, .proximity = 0.0});
    for (const auto& [losses, leader] : cases) {
      meeting.model = {static_cast<float>(communicator.rank()), 7.0F};
      EXPECT_EQ(meeting.round(losses[static_cast<std::size_t>(communicator.rank())]).extra, leader);
      EXPECT_EQ(meeting.model, (std::vector<float>{static_cast<float>(leader), 7.0F}));
    }
  });
}

TEST(Leader, IsChosenByTheLastLossOfAWorkerThatMadeNoStepSince) {
  run_ranks(2, [](Communicator& communicator) {
    const bool first = communicator.rank() == 0;
    Meeting meeting("lsgd", communicator, {.pull = 1.0, .proximity = 0.0});
    meeting.method->set_nonfinite_policy(NonfinitePolicy::skip);
    EXPECT_EQ(meeting.round(first ? 1.0F : 2.0F).extra, 0);
    std::vector<float> gradient(2, first ? std::nanf("") : 0.0F);
    EXPECT_EQ(meeting.method->step({key_of(communicator, 1), 0.0F, 1.5F}, meeting.model, gradient).extra, 0);
    EXPECT_EQ(meeting.round(first ? 3.0F : 2.0F).extra, 1);
  });
}

class RoundMethods : public testing::TestWithParam<std::string> {
 protected:
  const MethodRow& row() const { return method_row(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Table, RoundMethods, testing::Values("mgrawa", "lgrawa", "easgd", "lsgd", "localsgd"),
                         [](const auto& test) { return test.param; });

TEST_P(RoundMethods, SendInARoundWhatThePageSays) {
  for (const int ranks : {2, 3, 4}) {
    run_ranks(ranks, [&](Communicator& communicator) {
      Worker worker(row(), small_options(row()), communicator);
      for (std::uint32_t step = 0; step < 3; ++step) EXPECT_EQ(worker.step(step).traffic.sent_bytes, 0U);
      const auto traffic = worker.step(3).traffic;
      const auto w = static_cast<double>(ranks);
      const auto d = static_cast<double>(worker.model.size());
      const double all_reduce = 2.0 * (w - 1.0) / w * d * 4.0;
      const double headers = 2.0 * (w - 1.0) * 32.0;
      const double rounding = 2.0 * w * 4.0;  // chunks of n/W values are whole
      if (GetParam() == "lsgd") {
        EXPECT_LE(traffic.sent_bytes, d * 4.0 + 32.0 + (w - 1.0) * 4.0);
        EXPECT_LE(traffic.received_bytes, d * 4.0 + 32.0 + (w - 1.0) * 4.0);
      } else {
        const double scores = GetParam() == "mgrawa" ? 1.0 : GetParam() == "lgrawa" ? 4.0 : 0.0;
        const double score_bytes = scores == 0.0 ? 0.0 : scores * 4.0 * w + headers;
        EXPECT_GE(traffic.sent_bytes, all_reduce);
        EXPECT_LE(traffic.sent_bytes, all_reduce + headers + rounding + score_bytes);
      }
    });
  }
}

TEST_P(RoundMethods, SkipALocalStepOnOneWorkerOnly) {
  run_ranks(3, [&](Communicator& communicator) {
    Worker worker(row(), small_options(row()), communicator, {.momentum = 0.9, .nesterov = true});
    worker.method->set_nonfinite_policy(NonfinitePolicy::skip);
    worker.step(0);
    const auto before = worker.model;
    auto gradient = pull_gradient(worker.model, communicator.rank(), 1);
    if (communicator.rank() == 1) gradient[705] = std::nanf("");
    const StepReport report = worker.method->step({key_of(communicator, 1), 0.05F, 0.0F}, worker.model, gradient);
    EXPECT_EQ(report.skipped, communicator.rank() == 1);
    EXPECT_EQ(worker.model == before, communicator.rank() == 1);
    EXPECT_EQ(worker.method->skipped_steps(), communicator.rank() == 1 ? 1U : 0U);
    EXPECT_EQ(worker.step(2).rounds, 0U);
    EXPECT_EQ(worker.step(3).rounds, 1U);  // the dropped step counts: lockstep stays lockstep
    for (const float value : worker.model) ASSERT_TRUE(std::isfinite(value));
  });
}

/// What a method remembers but for the count of steps, which a dropped one is part of: lockstep stays lockstep.
void expect_same_memory(const State& state, const State& before) {
  EXPECT_EQ(state.nested("optimizer").to_bytes(), before.nested("optimizer").to_bytes());
  for (const char* name : {"centre", "scores", "local norms"}) {
    ASSERT_EQ(state.size(name), before.size(name)) << name;
    std::vector<float> values(state.size(name));
    std::vector<float> values_before(values.size());
    if (values.empty()) continue;
    state.get(name, values);
    before.get(name, values_before);
    EXPECT_EQ(values, values_before) << name;
  }
  for (const char* name : {"rounds", "rounds scored", "local steps", "loss sum", "loss count", "last loss"}) {
    ASSERT_EQ(state.has(name), before.has(name)) << name;
    if (!state.has(name)) continue;
    EXPECT_EQ(state.number(name), before.number(name)) << name;
  }
  EXPECT_EQ(state.number("steps"), before.number("steps") + 1.0);
}

TEST_P(RoundMethods, ADroppedLocalStepIsNotRemembered) {
  for (const char* optimizer : {"sgd", "adam"}) {
    for (const char* score : {"shared", "local"}) {
      MethodOptions options = small_options(row());
      if (GetParam().ends_with("grawa")) options.score = score;
      const bool adam = std::string(optimizer) == "adam";
      run_ranks(3, [&](Communicator& communicator) {
        Worker worker(row(), options, communicator,
                      {.name = optimizer, .momentum = adam ? 0.0 : 0.9, .nesterov = !adam, .weight_decay = 0.01});
        worker.method->set_nonfinite_policy(NonfinitePolicy::skip);
        for (std::uint32_t step = 0; step < 5; ++step) worker.step(step);  // a round, and a step of the next period
        const State before = worker.method->save();
        const auto model = worker.model;
        auto gradient = pull_gradient(worker.model, communicator.rank(), 5);
        if (communicator.rank() == 1) gradient[705] = std::numeric_limits<float>::infinity();
        const StepReport report = worker.method->step({key_of(communicator, 5), 0.05F, 3.0F}, worker.model, gradient);
        EXPECT_EQ(report.skipped, communicator.rank() == 1);
        if (communicator.rank() != 1) return;
        EXPECT_EQ(worker.model, model);
        expect_same_memory(worker.method->save(), before);
      });
    }
  }
}

TEST_P(RoundMethods, ErrorOfOneWorkerEndsTheOthersRound) {
  run_ranks(3, [&](Communicator& communicator) {
    Worker worker(row(), small_options(row()), communicator);
    worker.step(0);
    if (communicator.rank() == 1) {
      auto gradient = pull_gradient(worker.model, 1, 1);
      gradient[705] = std::nanf("");
      const auto text = message_of<InvalidConfig>([&] {
        worker.method->step({key_of(communicator, 1), 0.05F}, worker.model, gradient);
      });
      EXPECT_TRUE(contains(text, "rank 1") && contains(text, "conv.bias") && contains(text, "step 1")) << text;
      return;
    }
    const auto text = message_of<TransportError>([&] {
      for (std::uint32_t step = 1; step < 4; ++step) worker.step(step);
    });
    EXPECT_TRUE(contains(text, "rank 1") && contains(text, "conv.bias")) << text;
  });
}

TEST_P(RoundMethods, EndAfterTheirSteps) {
  run_ranks(2, [&](Communicator& communicator) {
    for (const std::uint32_t total : {8U, 9U}) {
      MethodOptions options = small_options(row());
      options.total_steps = total;
      Worker worker(row(), options, communicator);
      std::uint32_t rounds = 0;
      for (std::uint32_t step = 0; step < total; ++step) {
        const StepReport report = worker.step(step);
        rounds += report.rounds;
        ASSERT_EQ(report.finished, step + 1 == total) << step;
      }
      EXPECT_EQ(rounds, (total + 3) / 4);
      const auto text = message_of<InvalidConfig>([&] { worker.step(total); });
      EXPECT_TRUE(contains(text, "finished")) << text;
    }
  });
}

TEST_P(RoundMethods, ReadOutIsTheMeanOfTheWorkers) {
  run_ranks(3, [&](Communicator& communicator) {
    Worker worker(row(), small_options(row()), communicator);
    for (std::uint32_t step = 0; step < 6; ++step) worker.step(step);
    const auto sum = sum_everywhere(communicator, worker.model);
    const auto before = worker.model;
    const auto out = worker.read_out();
    EXPECT_EQ(worker.model, before);
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], sum[i] / 3.0, 1e-6);
  });
}

TEST_P(RoundMethods, RefuseWhatCannotWork) {
  run_ranks(2, [&](Communicator& communicator) {
    Place place({.threads = 1});
    MethodOptions options{.pace = "async"};
    const auto endless =
        message_of<InvalidConfig>([&] { make_model_method(row().name, options, {}, communicator, place); });
    EXPECT_TRUE(contains(endless, "total_steps") && contains(endless, "lockstep")) << endless;
    const auto method = make_model_method(row().name, {}, {}, communicator, place);
    method->register_tensors(small_model());
    std::vector<float> model(size_of(small_model()), static_cast<float>(communicator.rank()));
    auto gradient = model;
    const auto early = message_of<InvalidConfig>([&] { method->step({{}, 0.1F}, model, gradient); });
    EXPECT_TRUE(contains(early, "start()")) << early;
    const auto apart = message_of<InvalidConfig>([&] { method->start(model); });
    EXPECT_TRUE(contains(apart, "rank 1") && contains(apart, "checksum of the start point")) << apart;
  });
}

TEST(Lsgd, RefusesALossThatWasForgottenOnAllRanks) {
  for (const auto policy : {NonfinitePolicy::error, NonfinitePolicy::skip}) {
    run_ranks(3, [&](Communicator& communicator) {
      Worker worker(method_row("lsgd"), small_options(method_row("lsgd")), communicator);
      worker.method->set_nonfinite_policy(policy);
      auto gradient = pull_gradient(worker.model, communicator.rank(), 0);
      const auto model = worker.model;
      const auto text = message_of<InvalidConfig>([&] {
        worker.method->step({key_of(communicator, 0), 0.05F}, worker.model, gradient);
      });
      const std::string own = "rank " + std::to_string(communicator.rank()) + " has a loss of NaN at step 0";
      EXPECT_TRUE(contains(text, own) && contains(text, "give each step the loss of its batch")) << text;
      EXPECT_EQ(worker.model, model);
    });
  }
}

TEST(Lsgd, ALossThatOneRankForgotEndsTheOthersToo) {
  run_ranks(3, [](Communicator& communicator) {
    Worker worker(method_row("lsgd"), small_options(method_row("lsgd")), communicator);
    auto gradient = pull_gradient(worker.model, communicator.rank(), 0);
    const auto forget = [&] { worker.method->step({key_of(communicator, 0), 0.05F}, worker.model, gradient); };
    const auto go_on = [&] {
      for (std::uint32_t step = 0; step < 4; ++step) worker.step(step);
    };
    const std::string text =
        communicator.rank() == 1 ? message_of<InvalidConfig>(forget) : message_of<TransportError>(go_on);
    EXPECT_TRUE(contains(text, "rank 1 has a loss of NaN at step 0")) << text;
  });
}

// Once there was a loss, a NaN says that training diverged: as with a gradient, the policy decides.
TEST(Lsgd, ALossThatBecomesNanIsNamedOrDropsTheStepOfThatWorker) {
  run_ranks(2, [](Communicator& communicator) {
    Worker worker(method_row("lsgd"), small_options(method_row("lsgd")), communicator, {.momentum = 0.9});
    worker.step(0);
    auto gradient = pull_gradient(worker.model, communicator.rank(), 1);
    const auto model = worker.model;
    const float loss = communicator.rank() == 1 ? std::nanf("") : 0.0F;
    worker.method->set_nonfinite_policy(NonfinitePolicy::skip);
    const StepReport report = worker.method->step({key_of(communicator, 1), 0.05F, loss}, worker.model, gradient);
    EXPECT_EQ(report.skipped, communicator.rank() == 1);
    EXPECT_EQ(worker.model == model, communicator.rank() == 1);
    EXPECT_EQ(worker.method->skipped_steps(), communicator.rank() == 1 ? 1U : 0U);
    worker.step(2);
    EXPECT_EQ(worker.step(3).rounds, 1U);
    if (communicator.rank() != 1) return;
    worker.method->set_nonfinite_policy(NonfinitePolicy::error);
    const auto text = message_of<NonfiniteValue>([&] {
      worker.method->step({key_of(communicator, 4), 0.05F, loss}, worker.model, gradient);
    });
    EXPECT_TRUE(contains(text, "rank 1 has a loss of NaN at step 4") && contains(text, "learning rate")) << text;
  });
}

/// Two workers, of whom one leaves and one becomes rank 1 of three. Rank 0 and 2 are new.
TEST_P(RoundMethods, NewcomersStartAtTheCentreAndMomentaKeepTheirMean) {
  auto before = thread_communicators(2);
  auto after = thread_communicators(3);
  const OptimizerOptions optimizer{.momentum = 0.9, .nesterov = true};
  const auto n = size_of(small_model());
  std::vector<float> momenta[2];
  std::vector<float> centre;
  const auto momentum_of = [&](const ModelMethod& method) {
    std::vector<float> momentum(n);
    method.save().nested("optimizer").get("first", momentum);
    return momentum;
  };
  const auto make_on = [&](Communicator& communicator, Place& place) {
    auto method = make_model_method(row().name, small_options(row()), optimizer, communicator, place);
    method->register_tensors(small_model());
    method->set_scoring(score_on_shared_batch);
    return method;
  };
  const auto go_on = [&](ModelMethod& method, std::vector<float>& model, Communicator& next) {
    const auto momentum = momentum_of(method);
    for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(momentum[i], (momenta[0][i] + momenta[1][i]) / 2.0F, 1e-5);
    // Two steps since the last round: the next is due after two more.
    for (std::uint32_t step = 6; step < 8; ++step) {
      auto gradient = pull_gradient(model, next.rank(), step);
      EXPECT_EQ(method.step({key_of(next, step), 0.05F, 0.0F}, model, gradient).rounds, step == 7 ? 1U : 0U);
    }
    EXPECT_TRUE(same_everywhere(next, centre_of(method, n)));
  };
  const auto old_worker = [&](int rank) {
    Communicator& communicator = *before[static_cast<std::size_t>(rank)];
    Worker worker(row(), small_options(row()), communicator, optimizer);
    for (std::uint32_t step = 0; step < 6; ++step) worker.step(step);
    momenta[rank] = momentum_of(*worker.method);
    if (rank == 1) centre = centre_of(*worker.method, n);
    communicator.barrier().wait();
    if (rank == 0) return worker.method->resize(nullptr);
    const auto model = worker.model;
    make_on(*after[1], worker.place);  // newcomers make theirs and agree on it with the whole group
    worker.method->resize(after[1].get());
    worker.method->start(worker.model);
    EXPECT_EQ(worker.model, model);
    go_on(*worker.method, worker.model, *after[1]);
  };
  const auto new_worker = [&](int rank) {
    Communicator& communicator = *after[static_cast<std::size_t>(rank)];
    Place place({.threads = 1});
    const auto method = make_on(communicator, place);
    method->resize(&communicator);
    std::vector<float> model(n, 99.0F);
    method->start(model);
    EXPECT_EQ(model, centre);
    go_on(*method, model, communicator);
  };
  std::vector<std::jthread> threads;
  for (const int rank : {0, 1}) threads.emplace_back(old_worker, rank);
  for (const int rank : {0, 2}) threads.emplace_back(new_worker, rank);
}

}  // namespace
}  // namespace laconic::test
