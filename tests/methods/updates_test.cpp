// Compressed updates against the page: trajectories in float64 of every row with every optimizer, dropped steps, resumed
// runs, and the weight decay of a host's optimizer.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/largest_model.h"
#include "methods/optimizer.h"
#include "methods/updates_model.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr std::uint32_t kSteps = 50;
constexpr int kRanks = 3;
/// Rounding of float32 in values of about 3, over the steps of a contraction.
constexpr double kClose = 4e-5;

float rate_of(std::uint32_t step) { return step < 20 ? 0.05F : 0.01F; }

struct UpdateRun {
  std::string name;
  std::string method;
  MethodOptions options;
  OptimizerOptions optimizer;
};

double number_of(const UpdateRun& run, const char* name, double otherwise) {
  const Parameter* parameter = method_row(run.method).find_parameter(name);
  if (parameter == nullptr) return otherwise;
  return (run.options.*parameter->number).value_or(std::stod(parameter->fallback));
}

std::string word_of(const UpdateRun& run, const char* name) {
  const Parameter* parameter = method_row(run.method).find_parameter(name);
  return parameter == nullptr ? "" : (run.options.*parameter->word).value_or(parameter->fallback);
}

std::uint32_t period_of(const UpdateRun& run) {
  return static_cast<std::uint32_t>(number_of(run, "period", number_of(run, "local_steps", 1.0)));
}

bool returns_coded(const UpdateRun& run) { return word_of(run, "return") == "coded"; }

/// Where the ranges of the owners of sums begin, and the end.
std::vector<std::uint32_t> borders_of(const ModelMethod& method) {
  std::vector<std::uint32_t> borders(kRanks + 1);
  method.save().get("borders", View<std::uint32_t>(borders));
  return borders;
}

/// What a step of all workers left, and whose ranges it had.
struct Left {
  std::vector<std::vector<float>> errors;  ///< by worker
  std::vector<std::uint32_t> borders;      ///< of the owners, if they return coded sums
};

LargestModel largest_model(const UpdateRun& run) {
  LargestModel model(method_row(run.method), run.options);
  model.close = kClose;
  return model;
}

/// C of the largest entries. What arrived is read from what the method left.
Vector largest(const UpdateRun& run, const Vector& p, const Left& left, std::size_t worker) {
  const double decay = number_of(run, "decay", 1.0);
  Vector arrived(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    arrived[i] = p[i] - static_cast<double>(left.errors[worker][i]) / decay;
  }
  const LargestModel model = largest_model(run);
  if (!left.borders.empty()) model.fill_own_range(p, left.borders, worker, arrived);
  return model.sent(p, arrived);
}

Vector compressed(const UpdateRun& run, std::uint32_t step, const Vector& p, const Left& left, std::size_t worker) {
  if (method_row(run.method).has_parameter("ratio")) {
    return random_block(small_model(), number_of(run, "ratio", 0.0), word_of(run, "scope") == "tensor", step, p);
  }
  return left.errors.empty() ? p : largest(run, p, left, worker);
}

/// Δ of coded sums. What an owner does not return of its range goes into its error.
Vector coded_return(const UpdateRun& run, UpdatesModel& model, const std::vector<Vector>& sent,
                    const std::vector<std::uint32_t>& borders, const Vector& arrived) {
  const Vector back = largest_model(run).coded_return(sent, borders, arrived);
  for (std::size_t owner = 0; owner < sent.size(); ++owner) {
    for (std::size_t i = borders[owner]; i < borders[owner + 1]; ++i) {
      double left = -static_cast<double>(sent.size()) * back[i];
      for (const Vector& one : sent) left += one[i];
      model.e[owner][i] += model.decay * left;
    }
  }
  return back;
}

UpdatesModel model_of(const UpdateRun& run, std::size_t parameters) {
  UpdatesModel model(kRanks, Vector(parameters, 0.5));
  model.lambda = number_of(run, "lambda", 0.0);
  model.decay = number_of(run, "decay", 1.0);
  model.outer_rate = number_of(run, "outer_rate", 1.0);
  model.outer_momentum = number_of(run, "outer_momentum", 0.0);
  model.optimizer = [&run](std::size_t) -> const OptimizerOptions& { return run.optimizer; };
  return model;
}

/// One step of the method, and the same in float64.
void follow(const UpdateRun& run, Communicator& communicator, Worker& worker, UpdatesModel& model, std::uint32_t step,
            const StepInput& input) {
  const auto me = static_cast<std::size_t>(communicator.rank());
  const bool meets = (step + 1) % period_of(run) == 0;
  const auto velocity = model.outer_momentum > 0.0 ? saved(*worker.method, "velocity") : std::vector<float>();
  const auto last_point = saved(*worker.method, "point");
  const auto rate = static_cast<double>(input.learning_rate);
  Left left;
  if (returns_coded(run)) left.borders = borders_of(*worker.method);
  std::vector<Vector> sent;  // by worker
  model.returned = [&](const Vector& mean) {
    if (velocity.empty() && !returns_coded(run)) return mean;
    const auto next = saved(*worker.method, velocity.empty() ? "point" : "velocity");
    Vector arrived(mean.size());
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const auto now = static_cast<double>(next[i]);
      if (velocity.empty()) {
        arrived[i] = (model.shrink(rate, i) * static_cast<double>(last_point[i]) - now) / model.outer_rate;
      } else {
        arrived[i] = now - model.outer_momentum * static_cast<double>(velocity[i]);
      }
    }
    if (returns_coded(run)) return coded_return(run, model, sent, left.borders, arrived);
    return LargestModel(method_row(run.method), run.options).returned(mean, arrived);
  };
  auto gradient = pull_gradient(worker.model, communicator.rank(), step);
  worker.method->step(input, worker.model, gradient);
  left.errors = all_ranks(communicator, saved(*worker.method, "residual"));
  model.step(
      rate, meets,
      [&](const Vector& point, int k) { return pull_gradient64(point, k, step); },
      [&](const Vector& p, std::size_t k) {
        sent.push_back(compressed(run, step, p, left, k));
        return sent.back();
      });
  ASSERT_LT(distance(worker.model, model.y(me)), kClose) << "step " << step;
  const auto point = saved(*worker.method, "point");
  ASSERT_TRUE(same_everywhere(communicator, point));
  ASSERT_LT(distance(point, model.x), kClose) << "step " << step;
  const Vector expected = word_of(run, "read") == "mean" ? model.read_mean() : model.x;
  ASSERT_LT(distance(worker.read_out(), expected), kClose) << "step " << step;
  if (meets && !left.errors.empty()) {
    ASSERT_LT(distance(left.errors[me], model.e[me]), kClose) << "step " << step;
  }
  if (model.outer_momentum > 0.0) {
    ASSERT_LT(distance(saved(*worker.method, "velocity"), model.u), 10 * kClose) << "step " << step;
  }
}

std::vector<UpdateRun> all_runs() {
  const OptimizerOptions sgd{.momentum = 0.9, .nesterov = true, .weight_decay = 0.01};
  const OptimizerOptions adam{.name = "adam", .weight_decay = 0.01};
  const OptimizerOptions adamw{.name = "adamw", .weight_decay = 0.1};
  const OptimizerOptions plain{};
  std::vector<UpdateRun> runs;
  for (const auto& [word, optimizer] : {std::pair{"sgd", sgd}, {"plain", plain}, {"adam", adam}, {"adamw", adamw}}) {
    const auto add = [&, word = word, optimizer = optimizer](const std::string& method, const std::string& suffix,
                                                             const MethodOptions& options) {
      runs.push_back({test_name(method + suffix + "_" + word), method, options, optimizer});
      // Adam's first step would be as long in every entry. Which of them an owner then selected in its range is not to
      // be seen.
      if (options.return_ == "coded") runs.back().optimizer.epsilon = 0.1;
    };
    add("def", "", {.ratio = 8});
    add("def", "_by_model_locally", {.ratio = 8, .scope = "model", .lambda = 1.0, .local_steps = 3});
    add("def-a", "_locally", {.ratio = 8, .lambda = 0.6, .local_steps = 2});
    add("def-a", "_attached", {.ratio = 8, .lambda = 0.0, .local_steps = 2, .read = "mean"});
    add("ef-rbgs", "", {.ratio = 8});
    add("def-topk", "", {.keep = 0.1});
    add("def-topk", "_whole_values", {.keep = 0.1, .values = "f32"});
    add("def-topk", "_two_locally", {.keep = 0.1, .values = "two", .lambda = 1.0, .period = 3});
    add("def-topk", "_by_tensor", {.keep = 0.1, .scope = "tensor", .lambda = 0.0, .decay = 0.9, .period = 2});
    add("def-topk", "_outer", {.keep = 0.1, .outer_rate = 0.7, .outer_momentum = 0.5, .read = "point"});
    add("def-topk", "_coded_return", {.keep = 0.1, .return_ = "coded"});
    add("def-topk", "_whole_values_coded_return", {.keep = 0.1, .values = "f32", .return_ = "coded", .lambda = 1.0});
    add("def-topk", "_by_tensor_coded_return",
        {.keep = 0.1, .scope = "tensor", .values = "two", .return_ = "coded", .period = 2});
    add("diloco", "", {.period = 4});
    add("diloco", "_bf16", {.values = "bf16", .period = 4});
    add("diloco", "_largest", {.keep = 0.1, .values = "two", .read = "mean", .period = 2});
    add("diloco", "_largest_coded_return",
        {.keep = 0.1, .values = "two", .return_ = "coded", .read = "mean", .period = 2});
    add("diloco", "_signs", {.scope = "tensor", .values = "sign", .outer_momentum = 0.0, .period = 3});
    add("diloco", "_every_step", {.outer_rate = 1.0, .outer_momentum = 0.0, .read = "mean", .period = 1});
    add("sparseloco", "", {.keep = 0.1, .chunk = 512.0, .period = 4});
    add("sparseloco", "_coded_return", {.keep = 0.1, .chunk = 512.0, .return_ = "coded", .period = 4});
    add("sparseloco", "_whole_values", {.keep = 0.1, .scope = "model", .values = "f32", .period = 2});
  }
  return runs;
}

void PrintTo(const UpdateRun& run, std::ostream* out) { *out << run.name; }

class Page : public testing::TestWithParam<UpdateRun> {};

INSTANTIATE_TEST_SUITE_P(Updates, Page, testing::ValuesIn(all_runs()), [](const auto& test) { return test.param.name; });

TEST_P(Page, IsFollowed) {
  run_ranks(kRanks, [&](Communicator& communicator) {
    const UpdateRun& run = GetParam();
    Worker worker(method_row(run.method), run.options, communicator, run.optimizer);
    UpdatesModel model = model_of(run, worker.model.size());
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      follow(run, communicator, worker, model, step, {key_of(communicator, step), rate_of(step)});
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

/// The same run saved before a step, in the middle of a round or at its end, and taken up by a new method.
TEST_P(Page, GoesOnFromWhatWasSaved) {
  run_ranks(kRanks, [&](Communicator& communicator) {
    const UpdateRun& run = GetParam();
    for (const std::uint32_t cut : {1U, 3U, 4U}) {
      Worker straight(method_row(run.method), run.options, communicator, run.optimizer);
      for (std::uint32_t step = 0; step < cut; ++step) straight.step(step);
      Worker resumed(method_row(run.method), run.options, communicator, run.optimizer);
      resumed.method->load(State::from_bytes(straight.method->save().to_bytes()));
      resumed.model = straight.model;
      resumed.method->start(resumed.model);
      for (std::uint32_t step = cut; step < 9; ++step) {
        straight.step(step);
        resumed.step(step);
      }
      EXPECT_EQ(resumed.model, straight.model) << "cut at " << cut;
      EXPECT_EQ(resumed.method->save().to_bytes(), straight.method->save().to_bytes()) << "cut at " << cut;
    }
  });
}

/// A meeting with a value that is not finite changes nothing on any rank. A step alone concerns one rank: only a weight
/// decay that all ranks make alike is still made.
TEST_P(Page, DropsAStepThatIsNotFinite) {
  run_ranks(kRanks, [&](Communicator& communicator) {
    const UpdateRun& run = GetParam();
    const std::uint32_t period = period_of(run);
    Worker worker(method_row(run.method), run.options, communicator, run.optimizer);
    worker.method->set_nonfinite_policy(NonfinitePolicy::skip);
    const auto bad_step = [&](std::uint32_t step) {
      auto gradient = pull_gradient(worker.model, communicator.rank(), step);
      if (communicator.rank() == 1) gradient[705] = std::numeric_limits<float>::infinity();
      return worker.method->step({key_of(communicator, step), 0.05F}, worker.model, gradient).skipped;
    };
    for (std::uint32_t step = 0; step + 1 < 2 * period; ++step) worker.step(step);
    const auto memory = worker.method->save().to_bytes();
    const auto model = worker.model;
    EXPECT_TRUE(bad_step(2 * period - 1));
    EXPECT_EQ(worker.method->save().to_bytes(), memory);
    EXPECT_EQ(worker.model, model);
    if (period > 1) {
      EXPECT_EQ(bad_step(2 * period), communicator.rank() == 1);
      if (communicator.rank() == 1 && run.optimizer.name != "adamw") {
        EXPECT_EQ(worker.method->save().to_bytes(), memory);
        EXPECT_EQ(worker.model, model);
      }
    }
    for (std::uint32_t step = 2 * period + 1; step < 3 * period; ++step) worker.step(step);
    EXPECT_TRUE(same_everywhere(communicator, saved(*worker.method, "point")));
    for (const float value : worker.read_out()) ASSERT_TRUE(std::isfinite(value));
  });
}

/// Nothing is lost: x less the mean of all that is unsent moves by the mean of the workers' steps, exactly for small
/// multiples of a half, also between meetings and with an optimizer that remembers.
TEST(UpdatesConserve, TheMeanOfTheStepsExactly) {
  const std::vector<UpdateRun> runs{
      {"def_topk", "def-topk", {.keep = 0.1, .values = "f32", .lambda = 1.0}, {}},
      {"def_topk_locally", "def-topk", {.keep = 0.1, .scope = "tensor", .values = "f32", .period = 2}, {}},
      {"def_topk_coded_return", "def-topk", {.keep = 0.1, .values = "f32", .return_ = "coded", .lambda = 1.0}, {}},
      {"sparseloco_coded_return", "sparseloco",
       {.keep = 0.1, .scope = "chunk", .chunk = 512.0, .values = "f32", .return_ = "coded", .decay = 1.0,
        .read = "mean", .period = 3}, {}},
      {"sparseloco", "sparseloco",
       {.keep = 0.1, .scope = "chunk", .chunk = 512.0, .values = "f32", .decay = 1.0, .read = "mean", .period = 3}, {}},
      {"diloco", "diloco", {.outer_rate = 1.0, .outer_momentum = 0.0, .read = "mean", .period = 3}, {}}};
  for (const UpdateRun& run : runs) {
    for (const int ranks : {1, 2, 4}) {
      run_ranks(ranks, [&](Communicator& communicator) {
        Worker worker(method_row(run.method), run.options, communicator, {.momentum = 0.5});
        const auto n = worker.model.size();
        Vector expected(n, 0.5);
        Vector momentum(n, 0.0);  // of all workers together
        for (std::uint32_t step = 0; step < 8; ++step) {
          auto gradient = integer_gradient(n, communicator.rank(), step);
          const auto sum = sum_everywhere(communicator, gradient);
          worker.method->step({key_of(communicator, step), 0.5F}, worker.model, gradient);
          const auto out = worker.read_out();
          for (std::size_t i = 0; i < n; ++i) {
            momentum[i] = 0.5 * momentum[i] + sum[i];
            expected[i] -= 0.5 * momentum[i] / ranks;
            ASSERT_EQ(static_cast<double>(out[i]), expected[i]) << run.name << " step " << step << " entry " << i;
          }
        }
      });
    }
  }
}

/// A host's AdamW: our own with a weight decay of its own for every other tensor, told to the method by its factor.
class HostAdamw {
 public:
  HostAdamw() : place_({.threads = 1}) {
    for (std::size_t i = 0; i < small_model().size(); ++i) {
      parts_.emplace_back(options_of(i));
      parts_.back().prepare(place_, small_model()[i].size);
    }
  }
  static const OptimizerOptions& options_of(std::size_t tensor) {
    static const OptimizerOptions decays{.name = "adamw", .weight_decay = 0.1};
    static const OptimizerOptions does_not{.name = "adamw"};
    return tensor % 2 == 0 ? decays : does_not;
  }
  OptimizerOptions options() {
    return {.name = "host", .host = [this](View<const float> gradient, View<float> model) {
              std::uint64_t offset = 0;
              for (std::size_t i = 0; i < parts_.size(); ++i) {
                const std::uint64_t size = small_model()[i].size;
                parts_[i].step(place_, rate, gradient.sub(offset, size), model.sub(offset, size));
                offset += size;
              }
            }};
  }
  std::vector<float> shrink() const {
    std::vector<float> factors;
    for (const Optimizer& part : parts_) factors.push_back(part.shrink(rate));
    return factors;
  }
  float rate = 0.0F;

 private:
  Place place_;
  std::vector<Optimizer> parts_;
};

TEST(HostUpdates, DoNotSendADecoupledWeightDecay) {
  const std::vector<UpdateRun> runs{{"def", "def", {.ratio = 8}, {}},
                              {"def_a", "def-a", {.ratio = 8, .local_steps = 3}, {}},
                              {"def_topk", "def-topk", {.keep = 0.1}, {}},
                              {"def_topk_locally", "def-topk", {.keep = 0.1, .period = 3}, {}},
                              {"diloco", "diloco", {.period = 4}, {}},
                              {"sparseloco", "sparseloco", {.keep = 0.1, .chunk = 512.0, .period = 2}, {}}};
  for (const UpdateRun& run : runs) {
    run_ranks(kRanks, [&](Communicator& communicator) {
      HostAdamw host;
      Worker worker(method_row(run.method), run.options, communicator, host.options());
      EXPECT_FALSE(worker.method->streams());
      UpdatesModel model = model_of(run, worker.model.size());
      std::vector<std::size_t> tensor_of;
      for (std::size_t i = 0; i < small_model().size(); ++i) tensor_of.insert(tensor_of.end(), small_model()[i].size, i);
      model.optimizer = [&](std::size_t i) -> const OptimizerOptions& { return HostAdamw::options_of(tensor_of[i]); };
      for (std::uint32_t step = 0; step < 24; ++step) {
        host.rate = rate_of(step);
        const auto shrink = host.shrink();
        follow(run, communicator, worker, model, step,
               {.key = key_of(communicator, step), .learning_rate = host.rate, .shrink = shrink});
        if (testing::Test::HasFatalFailure()) return;
      }
    });
  }
}

/// Our own AdamW, called by a host that tells its factor, gives the bits of the method's own.
TEST(HostUpdates, GiveTheBitsOfTheMethodsOwn) {
  for (const char* name : {"def", "def-topk", "diloco", "sparseloco"}) {
    run_ranks(kRanks, [&](Communicator& communicator) {
      const MethodRow& row = method_row(name);
      const OptimizerOptions adamw{.name = "adamw", .weight_decay = 0.1};
      Place place({.threads = 1});
      Optimizer inner(adamw);
      inner.prepare(place, size_of(small_model()));
      const OptimizerOptions host{.name = "host", .host = [&](View<const float> gradient, View<float> model) {
                                    inner.step(place, 0.05F, gradient, model);
                                  }};
      const std::vector<float> shrink(small_model().size(), inner.shrink(0.05F));
      Worker own(row, small_options(row), communicator, adamw);
      Worker hosted(row, small_options(row), communicator, host);
      for (std::uint32_t step = 0; step < 9; ++step) {
        own.step(step);
        auto gradient = pull_gradient(hosted.model, communicator.rank(), step);
        hosted.method->step({.key = key_of(communicator, step), .learning_rate = 0.05F, .shrink = shrink}, hosted.model,
                            gradient);
        ASSERT_EQ(own.model, hosted.model) << name << " step " << step;
        ASSERT_EQ(saved(*own.method, "point"), saved(*hosted.method, "point")) << name << " step " << step;
      }
    });
  }
}

TEST(HostUpdates, RefuseFactorsOutOfRange) {
  run_ranks(1, [](Communicator& communicator) {
    const OptimizerOptions host{.name = "host", .host = [](View<const float>, View<float>) {}};
    Worker worker(method_row("def-topk"), {}, communicator, host);
    const auto refused = [&](const std::vector<float>& shrink) {
      auto gradient = worker.model;
      return message_of<InvalidConfig>([&] {
        worker.method->step({.key = key_of(communicator, 0), .shrink = shrink}, worker.model, gradient);
      });
    };
    EXPECT_TRUE(contains(refused({1.0F, 1.0F, 1.5F, 1.0F}), "shrink of tensor fc.weight must be in (0, 1], got 1.5"));
    EXPECT_TRUE(contains(refused({1.0F, 0.0F, 1.0F, 1.0F}), "shrink of tensor conv.bias"));
    EXPECT_TRUE(contains(refused({1.0F}), "shrink"));
  });
}

/// Whatever the policy: its step cannot be taken back.
TEST(HostUpdates, DropNoStepThatTheHostHasMade) {
  run_ranks(kRanks, [](Communicator& communicator) {
    const OptimizerOptions host{.name = "host", .host = [&](View<const float>, View<float> model) {
                                  if (communicator.rank() == 1) model[705] = std::numeric_limits<float>::infinity();
                                }};
    Worker worker(method_row("def-topk"), {}, communicator, host);
    worker.method->set_nonfinite_policy(NonfinitePolicy::skip);
    auto gradient = pull_gradient(worker.model, communicator.rank(), 0);
    const auto text = message_of<InvalidConfig>([&] {
      worker.method->step({key_of(communicator, 5), 0.05F}, worker.model, gradient);
    });
    EXPECT_TRUE(contains(text, "rank 1") && contains(text, "conv.bias") && contains(text, "step 5")) << text;
    EXPECT_TRUE(contains(text, "host's optimizer made")) << text;
  });
}

/// A run may come and go in the middle of a round: the mean of what is unsent stays, survivors keep their own moves, and
/// a newcomer begins at the detached point.
TEST(UpdatesResize, KeepsTheMeanErrorAndTheMovesOfARound) {
  const MethodOptions options{.keep = 0.1, .lambda = 0.5, .period = 4};
  const OptimizerOptions adamw{.name = "adamw", .weight_decay = 0.1};
  const auto old_group = thread_communicators(2);
  const auto next_group = thread_communicators(3);
  run_ranks(3, [&](Communicator& everyone) {
    const auto rank = static_cast<std::size_t>(everyone.rank());
    const bool newcomer = rank == 2;
    const auto alone = thread_communicators(1);
    Worker worker(method_row("def-topk"), options, newcomer ? *alone[0] : *old_group[rank], adamw);
    std::vector<float> moved(worker.model.size(), 0.0F);
    std::vector<float> owed = moved;
    std::unique_ptr<ModelMethod> fresh;
    if (newcomer) {
      fresh = make_model_method("def-topk", options, adamw, *alone[0], worker.place);
      fresh->register_tensors(small_model());
    } else {
      for (std::uint32_t step = 0; step < 6; ++step) worker.step(step);
      owed = saved(*worker.method, "residual");
      const auto start = saved(*worker.method, "start of the round");
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = start[i] - worker.model[i];
    }
    ModelMethod& method = newcomer ? *fresh : *worker.method;
    const auto owed_before = sum_everywhere(everyone, owed);
    method.resize(next_group[rank].get());
    method.start(worker.model);
    const auto error = saved(method, "residual");
    const auto point = saved(method, "point");
    const auto start = saved(method, "start of the round");
    EXPECT_TRUE(same_everywhere(*next_group[rank], point));
    for (std::size_t i = 0; i < moved.size(); ++i) {
      ASSERT_NEAR(error[i], owed_before[i] / 2, 1e-6);
      ASSERT_NEAR(start[i], point[i] - 0.5F * error[i], 1e-6);
      ASSERT_NEAR(start[i] - worker.model[i], moved[i], 1e-6);
    }
    auto gradient = pull_gradient(worker.model, everyone.rank(), 7);
    EXPECT_EQ(method.step({{42, 7, static_cast<std::uint32_t>(rank)}, 0.05F}, worker.model, gradient).rounds, 1U);
    EXPECT_TRUE(same_everywhere(*next_group[rank], saved(method, "point")));
  });
}

}  // namespace
}  // namespace laconic::test
