// Compressed rounds: the round methods when a round sends coded differences to the centre. Trajectories in float64, what
// is conserved, dropped rounds and bytes.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "laconic/error.h"
#include "laconic/nonfinite.h"
#include "laconic/threads.h"
#include "methods/largest_model.h"
#include "methods/rounds_model.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr double kClose = 5e-5;  ///< rounding of float32 in the models, over the steps of a contraction

struct CompressedRun {
  std::string name;
  RoundSettings settings;
  MethodOptions bits;

  MethodOptions options() const {
    MethodOptions all = options_of(settings);
    all.keep = bits.keep;
    all.values = bits.values;
    all.scope = bits.scope;
    all.chunk = bits.chunk;
    all.route = bits.route;
    return all;
  }
};

void PrintTo(const CompressedRun& run, std::ostream* out) { *out << run.name; }

std::vector<CompressedRun> compressed_runs() {
  const std::vector<RoundSettings> methods{{.method = "localsgd"},
                                           {.method = "easgd", .pull = 0.43},
                                           {.method = "lsgd", .pull = 0.3, .proximity = 0.1},
                                           {.method = "mgrawa"},
                                           {.method = "lgrawa", .pull = 0.7, .local_scores = true}};
  std::vector<CompressedRun> runs;
  for (const RoundSettings& settings : methods) {
    const auto add = [&](const std::string& suffix, const MethodOptions& bits) {
      runs.push_back({settings.method + suffix, settings, bits});
    };
    add("_bf16", {.values = "bf16"});
    add("_f16_tenth", {.keep = 0.1, .values = "f16"});
    add("_quarter", {.keep = 0.25, .scope = "tensor"});
    add("_signs", {.values = "sign"});
    add("_signs_of_a_tenth", {.keep = 0.1, .values = "sign"});
    add("_two_by_chunk", {.keep = 0.25, .scope = "chunk", .chunk = 128, .values = "two"});
  }
  return runs;
}

class CompressedRounds : public testing::TestWithParam<CompressedRun> {};

INSTANTIATE_TEST_SUITE_P(Rounds, CompressedRounds, testing::ValuesIn(compressed_runs()),
                         [](const auto& test) { return test.param.name; });

TEST_P(CompressedRounds, FollowTheFloat64Model) {
  const CompressedRun& run = GetParam();
  run_ranks(3, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto tensors = small_model();
    const auto method = make_model_method(run.settings.method, run.options(),
                                          {.momentum = run.settings.momentum, .nesterov = true}, communicator, place);
    method->register_tensors(tensors);
    method->set_scoring(score_on_shared_batch);
    std::vector<float> model(size_of(tensors), 0.5F);
    method->start(model);
    RoundModel expected(run.settings, communicator.size(), tensors, 0.5);
    LargestModel compressor(method_row(run.settings.method), run.options());
    compressor.close = 4 * kClose;
    std::vector<float> centre = saved(*method, "centre");
    std::vector<float> centre_before;
    expected.returned = [&](const Vector& mean) {
      const double share = run.settings.method == "easgd" ? run.settings.pull : 1.0;
      Vector arrived(mean.size());
      for (std::size_t i = 0; i < mean.size(); ++i) {
        arrived[i] = (static_cast<double>(centre_before[i]) - static_cast<double>(centre[i])) / share;
      }
      return compressor.returned(mean, arrived);
    };
    std::vector<std::vector<float>> left;
    std::vector<std::vector<float>> left_before;
    expected.compress = [&](const Vector& p, std::size_t worker, double share) {
      Vector arrived(p.size());
      for (std::size_t i = 0; i < p.size(); ++i) {
        arrived[i] = p[i] - (static_cast<double>(left[worker][i]) -
                             (1.0 - share) * static_cast<double>(left_before[worker][i])) / share;
      }
      return compressor.sent(p, arrived);
    };
    for (std::uint32_t step = 0; step < 48; ++step) {
      left_before = all_ranks(communicator, saved(*method, "residual"));
      auto gradient = quadratic_gradient(View<const float>(model), communicator.rank(), step);
      const float loss = reported_loss(communicator.rank(), step);
      method->step({key_of(communicator, step), static_cast<float>(run.settings.learning_rate), loss}, model, gradient);
      left = all_ranks(communicator, saved(*method, "residual"));
      centre_before = centre;
      centre = saved(*method, "centre");
      expected.step(step);
      ASSERT_LT(distance(model, expected.model(communicator.rank())), kClose) << "step " << step;
      ASSERT_LT(distance(centre, expected.centre()), kClose) << "step " << step;
      ASSERT_TRUE(same_everywhere(communicator, centre)) << "step " << step;
      ASSERT_LT(distance(saved(*method, "residual"), expected.error(communicator.rank())), kClose) << "step " << step;
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(expected.rounds(), 12U);
    EXPECT_GT(method->residual_norm(), 0.0);
  });
}

/// A method whose workers are moved by hand: a round in every step, without local movement.
struct MovedWorker {
  MovedWorker(const std::string& name, MethodOptions options, Communicator& the_communicator)
      : communicator(the_communicator) {
    options.period = 1;
    if (method_row(name).has_parameter("proximity")) options.proximity = 0.0;
    method = make_model_method(name, options, {}, communicator, place);
    method->register_tensors(small_model());
    // The same score everywhere makes equal weights.
    method->set_scoring([](View<const float>, View<float> gradient) {
      for (float& value : gradient) value = 1.0F;
    });
    model.assign(size_of(small_model()), 0.5F);
    method->start(model);
  }

  void move(std::uint32_t number) {
    const auto by = normal_values(model.size(), 1'000 * number + static_cast<std::uint64_t>(communicator.rank()));
    for (std::size_t i = 0; i < model.size(); ++i) model[i] += by[i];
  }
  StepReport round(std::uint32_t number) {
    std::vector<float> gradient(model.size(), 0.0F);
    const auto loss = static_cast<float>((number + static_cast<std::uint32_t>(communicator.rank())) % 3);
    return method->step({key_of(communicator, number), 0.0F, loss}, model, gradient);
  }
  /// Of all workers: model less error, and of EASGD also the centre.
  std::vector<double> owned(bool with_centre) {
    std::vector<float> mine = model;
    const auto error = saved(*method, "residual");
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] -= error[i];
    auto sums = sum_everywhere(communicator, mine);
    const auto centre = saved(*method, "centre");
    for (std::size_t i = 0; with_centre && i < sums.size(); ++i) sums[i] += static_cast<double>(centre[i]);
    return sums;
  }

  Communicator& communicator;
  Place place{{.threads = 1}};
  std::unique_ptr<ModelMethod> method;
  std::vector<float> model;
};

/// A round moves nothing into nowhere: the models less the errors keep their sum, EASGD's together with its centre.
TEST(CompressedRoundsConserve, WhatTheWorkersHave) {
  const std::vector<MethodOptions> settings{{.keep = 0.1},
                                            {.keep = 0.1, .values = "sign"},
                                            {.values = "two"},
                                            {.keep = 0.1, .return_ = "coded"},
                                            {.keep = 0.2, .values = "f16", .return_ = "coded"},
                                            {.keep = 0.2, .scope = "tensor", .values = "sign", .return_ = "coded"},
                                            {.keep = 0.2, .scope = "chunk", .chunk = 128, .values = "two",
                                             .return_ = "coded"}};
  for (const std::string name : {"localsgd", "easgd", "mgrawa", "lgrawa"}) {
    for (const int ranks : {1, 2, 3, 7}) {
      run_ranks(ranks, [&](Communicator& communicator) {
        for (std::size_t i = 0; i < settings.size(); ++i) {
          MovedWorker worker(name, settings[i], communicator);
          for (std::uint32_t number = 0; number < 6; ++number) {
            worker.move(number);
            const auto before = worker.owned(name == "easgd");
            worker.round(number);
            const auto after = worker.owned(name == "easgd");
            for (std::size_t entry = 0; entry < before.size(); ++entry) {
              ASSERT_NEAR(after[entry], before[entry], 2e-5 * ranks) << name << " settings " << i << " round " << number;
            }
          }
        }
      });
    }
  }
}

/// Of LSGD the leader keeps what it has. The errors of the others shrink as their models do.
TEST(CompressedRoundsConserve, WhatTheLeaderHas) {
  for (const char* values : {"f32", "sign"}) {
    run_ranks(3, [&](Communicator& communicator) {
      MovedWorker worker("lsgd", {.keep = 0.1, .values = values, .pull = 0.25}, communicator);
      bool has_led = false;
      for (std::uint32_t number = 0; number < 9; ++number) {
        worker.move(number);
        const auto model = worker.model;
        const auto error = saved(*worker.method, "residual");
        const bool leads = worker.round(number).extra == communicator.rank();
        const auto error_after = saved(*worker.method, "residual");
        for (std::size_t i = 0; i < model.size(); ++i) {
          if (leads) {
            ASSERT_NEAR(worker.model[i] - error_after[i], model[i] - error[i], 2e-5) << "round " << number;
          } else {
            ASSERT_FLOAT_EQ(error_after[i], 0.75F * error[i]) << "round " << number;
          }
        }
        has_led = has_led || leads;
        EXPECT_EQ(worker.method->residual_norm() > 0.0, has_led) << "round " << number;
      }
      EXPECT_TRUE(has_led);
    });
  }
}

/// Differences that stay are not sent again and again: workers that stand still are followed, not overshot.
TEST(CompressedRounds, AnElasticCentreDoesNotOvershootWorkersThatStandStill) {
  for (const std::string name : {"easgd", "mgrawa", "lsgd"}) {
    run_ranks(3, [&](Communicator& communicator) {
      MovedWorker worker(name, {.keep = 0.05, .pull = 0.5}, communicator);
      for (float& value : worker.model) value = 1.5F;
      for (std::uint32_t number = 0; number < 300; ++number) {
        worker.round(number);
        for (const float value : saved(*worker.method, "centre")) ASSERT_NEAR(value, 1.0F, 0.5001F) << name << number;
      }
    });
  }
}

/// With all of its error owed, local SGD is the compressed update without an outer step, bit for bit.
TEST(CompressedRounds, OfLocalSgdAreThoseOfDilocoWithoutAnOuterStep) {
  const std::vector<MethodOptions> settings{
      {.values = "bf16"}, {.keep = 0.1, .scope = "chunk", .chunk = 128, .values = "two", .return_ = "coded"}};
  for (const MethodOptions& bits : settings) {
    run_ranks(3, [&](Communicator& communicator) {
      MethodOptions options = bits;
      options.period = 3;
      Worker local(method_row("localsgd"), options, communicator, {.name = "adam"});
      options.outer_rate = 1.0;
      options.outer_momentum = 0.0;
      Worker update(method_row("diloco"), options, communicator, {.name = "adam"});
      for (std::uint32_t step = 0; step < 18; ++step) {
        local.step(step);
        update.step(step);
        ASSERT_EQ(local.model, update.model) << "step " << step;
        ASSERT_EQ(saved(*local.method, "residual"), saved(*update.method, "residual")) << "step " << step;
      }
    });
  }
}

TEST(CompressedRounds, NameRankTensorAndStepOfAModelThatIsNotFiniteAndDropTheRound) {
  for (const std::string name : {"localsgd", "easgd", "lsgd", "mgrawa", "lgrawa"}) {
    for (const char* values : {"bf16", "sign", "f32"}) {
      run_ranks(3, [&](Communicator& communicator) {
        const MethodRow& row = method_row(name);
        Worker worker(row, {.keep = std::string_view(values) == "bf16" ? 1.0 : 0.2, .values = values, .period = 4},
                      communicator);
        for (std::uint32_t step = 0; step < 7; ++step) worker.step(step);
        const float kept = worker.model[705];
        if (communicator.rank() == 1) worker.model[705] = std::numeric_limits<float>::infinity();
        const auto centre = saved(*worker.method, "centre");
        const auto residual = saved(*worker.method, "residual");
        const auto unfinite_round = [&](std::uint32_t step) {
          std::vector<float> gradient(worker.model.size(), 0.0F);
          const float loss = communicator.rank() == 1 ? -100.0F : 1.0F;  // the leader's model travels
          return worker.method->step({key_of(communicator, step), 0.05F, loss}, worker.model, gradient);
        };
        worker.method->set_nonfinite_policy(NonfinitePolicy::skip);
        EXPECT_TRUE(unfinite_round(107).skipped) << name;
        EXPECT_EQ(saved(*worker.method, "centre"), centre) << name;
        EXPECT_EQ(saved(*worker.method, "residual"), residual) << name;
        worker.model[705] = kept;
        for (std::uint32_t step = 8; step < 15; ++step) EXPECT_FALSE(worker.step(step).skipped) << name;
        if (communicator.rank() == 1) worker.model[705] = std::numeric_limits<float>::infinity();
        worker.method->set_nonfinite_policy(NonfinitePolicy::error);
        const auto text = message_of<NonfiniteValue>([&] { unfinite_round(115); });
        EXPECT_TRUE(contains(text, name + ": rank 1 has") && contains(text, "tensor conv.bias") &&
                    contains(text, "step 115") && contains(text, "round 3"))
            << text;
      });
    }
  }
}

/// Bytes of a round without headers: signs of all entries take a bit each, and a leader's list goes around once.
TEST(CompressedRounds, SendWhatThePageSays) {
  for (const int ranks : {2, 3, 4}) {
    run_ranks(ranks, [&](Communicator& communicator) {
      const auto w = static_cast<double>(ranks);
      const auto round_of = [&](const std::string& name, const MethodOptions& options) {
        MovedWorker worker(name, options, communicator);
        worker.move(0);
        return worker.round(0).traffic;
      };
      const auto n = static_cast<double>(size_of(small_model()));
      const double header = 40.0;  // with the first index
      const double notice = 24.0;
      const double signs = n / 8 + n / 512 + header + 16.0;
      const auto gathered = round_of("localsgd", {.values = "sign"});
      EXPECT_GE(gathered.sent_bytes, (w - 1) * n / 8);
      EXPECT_LE(gathered.sent_bytes, (w - 1) * (signs + notice));
      const auto bf16 = round_of("easgd", {.values = "bf16"});
      EXPECT_GE(bf16.sent_bytes, 2 * (w - 1) / w * n * 2);
      EXPECT_LE(bf16.sent_bytes, 2 * (w - 1) / w * n * 2 + 2 * (w - 1) * 36.0 + 8 * w);
      const auto led = round_of("lsgd", {.values = "sign"});
      EXPECT_LE(led.sent_bytes, signs + 8.0 + (w - 1) * 4.0);
      EXPECT_LE(led.received_bytes, signs + 8.0 + (w - 1) * 4.0);
      const auto coded = round_of("mgrawa", {.keep = 0.25, .values = "sign", .return_ = "coded"});
      const auto payload = static_cast<double>(coded.payload_bytes);
      EXPECT_LE(coded.sent_bytes, 2.1 * (w - 1) / w * payload + 2 * (w - 1) * (header + 40.0));
    });
  }
}

TEST(CompressedRounds, RefuseWhatWouldCountForNothing) {
  run_ranks(1, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto refusal = [&](const char* name, const MethodOptions& options) {
      return message_of<InvalidConfig>([&] { make_model_method(name, options, {}, communicator, place); });
    };
    EXPECT_TRUE(contains(refusal("localsgd", {.scope = "tensor"}),
                         "localsgd: scope counts only with keep below 1, or values = sign or two, got tensor without"));
    EXPECT_TRUE(contains(refusal("easgd", {.values = "bf16", .return_ = "coded"}), "return counts only with keep below 1"));
    EXPECT_TRUE(contains(refusal("lsgd", {.keep = 0.1, .return_ = "coded"}), "lsgd has no parameter return"));
    EXPECT_TRUE(contains(refusal("mgrawa", {.keep = 0.1, .chunk = 128}), "chunk counts only with scope = chunk"));
    EXPECT_TRUE(contains(refusal("diloco", {.keep = 0.1, .order = "engine"}), "order counts only with keep = 1"));
  });
}

}  // namespace
}  // namespace laconic::test
