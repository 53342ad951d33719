// Networks in the loop: learning, and the same bits whatever runs beside.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>

#include "laconic/error.h"
#include "methods/table.h"
#include "support/method_names.h"
#include "support/support.h"
#include "torch/train/device.h"
#include "torch/train/small_run.h"
#include "torch/train/task_workload.h"

namespace laconic {
namespace {

using test::run;
using test::small_run;
using test::small_text_run;

class EveryMethod : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Table, EveryMethod, testing::ValuesIn(test::method_names()),
                         [](const auto& row) { return test::test_name(row.param); });

TEST_P(EveryMethod, TrainsTheSameTwiceAndLowersTheLoss) {
  RunConfig config = small_run(GetParam());
  const auto first = run(config);
  const auto again = run(config);
  EXPECT_EQ(first.front().model, again.front().model);
  for (const RunResult& result : first) {
    EXPECT_EQ(result.model, first.front().model);
    EXPECT_EQ(result.accuracy, first.front().accuracy);
  }
  ASSERT_TRUE(first.front().accuracy.has_value());
  config.steps = 0;
  const double before = run(config).front().loss;
  EXPECT_LT(first.front().loss, before);
}

// The cnn: an mlp's tensors are one chunk, and nothing would overlap.
TEST_P(EveryMethod, GivesTheSameBitsWithoutOverlap) {
  RunConfig config = small_run(GetParam(), "cnn");
  config.steps = 5;
  const auto overlapped = run(config);
  config.overlap = false;
  EXPECT_EQ(run(config).front().model, overlapped.front().model);
}

// Only inputs of matrix products are rounded: the run is another one, close by, and its parameters are float32.
TEST(Training, RoundsProductsWhereAsked) {
  RunConfig config = small_text_run("sgd");
  const RunResult whole = run(config).front();
  config.task.precision = "bf16";
  const RunResult rounded = run(config).front();
  EXPECT_NE(rounded.model, whole.model);
  EXPECT_NEAR(rounded.loss, whole.loss, 0.05);
  const auto has_more_bits = [](float value) { return (std::bit_cast<std::uint32_t>(value) & 0xFFFF) != 0; };
  const auto count = std::count_if(rounded.model.begin(), rounded.model.end(), has_more_bits);
  EXPECT_GT(static_cast<std::size_t>(count), rounded.model.size() / 2);
  config.task.precision = "f32";
  EXPECT_EQ(run(config).front().model, whole.model);
}

TEST(Training, OverlapsGradientsThatAreHeldBackToo) {
  RunConfig config = small_run("topk", "cnn");
  config.options.scope = "tensor";
  config.steps = 3;
  const auto plain = run(config);
  config.compute_seconds = 0.05;
  const auto held_back = run(config);
  EXPECT_EQ(held_back.front().model, plain.front().model);
  EXPECT_GE(held_back.front().gradient_seconds, 3 * 0.05 - 1e-3);
}

/// How often a network told its loop that a gradient is ready, in each of its steps.
class Handover final : public Workload {
 public:
  explicit Handover(std::unique_ptr<Workload> workload) : workload_(std::move(workload)) {}
  std::unique_ptr<Learner> make_learner(const RunConfig& config, int rank) const override;
  mutable std::vector<int> told{};  ///< by step of rank 0; −1: nobody asked
  mutable std::size_t tensors = 0;

 private:
  std::unique_ptr<Workload> workload_;
};

class Told final : public Learner {
 public:
  Told(std::unique_ptr<Learner> learner, std::vector<int>* told) : learner_(std::move(learner)), told_(told) {}
  const std::vector<Tensor>& tensors() const override { return learner_->tensors(); }
  Place& place() override { return learner_->place(); }
  void start(View<float> model) override { learner_->start(model); }
  bool tells_when_ready() const override { return learner_->tells_when_ready(); }
  double gradient(std::uint32_t step, View<float> model, View<float> gradient, const Ready& ready) override {
    if (!ready) {
      if (told_ != nullptr) told_->push_back(-1);
      return learner_->gradient(step, model, gradient, ready);
    }
    int told = 0;
    const double loss = learner_->gradient(step, model, gradient, [&](std::uint32_t tensor) {
      ++told;
      ready(tensor);
    });
    if (told_ != nullptr) told_->push_back(told);  // before gradient returned: backward was not over
    return loss;
  }
  void shared_gradient(std::uint32_t round, View<const float> model, View<float> gradient) override {
    learner_->shared_gradient(round, model, gradient);
  }
  Evaluation evaluate(View<float> point, Communicator* group) override { return learner_->evaluate(point, group); }

 private:
  std::unique_ptr<Learner> learner_;
  std::vector<int>* told_;
};

std::unique_ptr<Learner> Handover::make_learner(const RunConfig& config, int rank) const {
  auto learner = workload_->make_learner(config, rank);
  if (rank == 0) tensors = learner->tensors().size();
  return std::make_unique<Told>(std::move(learner), rank == 0 ? &told : nullptr);
}

// Same bits with and without would hold as well if nothing ever overlapped.
TEST(Training, HandsTensorsOverWhileBackwardRuns) {
  for (const bool overlap : {true, false}) {
    RunConfig config = small_run("sgd", "cnn");
    config.compute_seconds = 0.01;  // no matter
    config.steps = 2;
    config.overlap = overlap;
    const Handover workload(task_workload(config, ""));
    run_threads(config, workload);
    ASSERT_EQ(workload.tensors, 10U);
    EXPECT_EQ(workload.told, overlap ? std::vector<int>(2, 10) : std::vector<int>(2, -1));
  }
}

// The network for CIFAR: the gradient of one step lowers the loss of its own batch.
TEST(Training, TakesAStepWithResNet18) {
  RunConfig config = small_run("sgd", "resnet18");
  config.workers = 1;
  config.steps = 2;
  config.task.sampling = "epochs";
  config.task.train_samples = 8;  // one batch
  config.task.test_samples = 8;
  config.learning_rate = 0.01;
  struct Losses final : Observer {
    void on_step(const StepRecord& record) override { found.push_back(record.batch_loss); }
    std::vector<double> found{};
  } losses;
  const auto result = run_threads(config, *task_workload(config, ""), &losses).front();
  EXPECT_EQ(result.model.size(), 11'172'810U);  // one channel: 2 · 64 · 9 fewer than with three
  EXPECT_EQ(result.device, "cpu");
  ASSERT_EQ(losses.found.size(), 2U);
  EXPECT_LT(losses.found[1], losses.found[0]);
}

TEST(Training, SaysWhyAGpuCannotBeUsed) {
  RunConfig config = small_run("sgd");
  config.task.device = "cuda";
  const std::string why = test::message_of<InvalidConfig>([] { require_training_device("cuda"); });
  if (why == "(no error)") GTEST_SKIP() << "there is a GPU";
  EXPECT_TRUE(test::contains(why, "device cuda cannot be used: "));
  EXPECT_TRUE(test::contains(why, "or use device cpu"));
  EXPECT_EQ(test::message_of<InvalidConfig>([&] { task_workload(config, ""); }), why);
  require_training_device("cpu");
}

TEST(Training, LearnsDigits) {
  RunConfig config = small_run("sgd", "cnn");
  config.task.train_samples = 2000;
  config.task.test_samples = 400;
  config.workers = 2;
  config.steps = 120;
  config.schedule = default_task_schedule(config.steps);
  EXPECT_GT(run(config).front().accuracy.value(), 0.5);
}

// Gradients first, then what methods make of them: the same bits twice, and on all ranks.
TEST(Language, TrainsTheSameTwiceAndLowersTheLoss) {
  for (const char* method : {"adam", "signum", "topk", "mgrawa"}) {
    RunConfig config = small_text_run(method);
    const auto first = run(config);
    EXPECT_EQ(first.front().model, run(config).front().model) << method;
    EXPECT_EQ(first.front().model, first.back().model) << method;
    ASSERT_TRUE(first.front().perplexity.has_value());
    EXPECT_FALSE(first.front().accuracy.has_value()) << "no classes are told apart";
    EXPECT_DOUBLE_EQ(*first.front().perplexity, std::exp(first.front().loss));
    config.steps = 0;
    const RunResult before = run(config).front();
    EXPECT_NEAR(before.loss, std::log(59.0), 0.2) << "at first every character is as likely";
    EXPECT_LT(first.front().loss, before.loss) << method;
    config.steps = 8;
    config.seed = 2;
    EXPECT_NE(run(config).front().model, first.front().model);
  }
}

TEST(Language, HasTheGradientOfTheSeedWhateverRunsBeside) {
  const RunConfig config = small_text_run("adam");
  const auto workload = task_workload(config, "");
  const auto gradient_of = [&](int rank) {
    const auto learner = workload->make_learner(config, rank);
    std::size_t size = 0;
    for (const Tensor& tensor : learner->tensors()) size += tensor.size;
    std::vector<float> model(size), gradient(size);
    learner->start(model);
    learner->gradient(3, model, gradient, {});
    return gradient;
  };
  const auto first = gradient_of(0);
  EXPECT_EQ(gradient_of(0), first);
  EXPECT_NE(gradient_of(1), first) << "another worker reads other windows";
}

TEST(Language, WritesTextWithTheSeed) {
  RunConfig config = small_text_run("adam");
  const auto workload = task_workload(config, "");
  const RunResult result = run_threads(config, *workload).front();
  const std::string text = workload->write_text(config, result.model, 100);
  EXPECT_EQ(text.size(), 100U);
  EXPECT_EQ(workload->write_text(config, result.model, 30), text.substr(0, 30));
  EXPECT_EQ(workload->write_text(config, result.model, 0), "");
  config.seed = 7;
  EXPECT_NE(workload->write_text(config, result.model, 100), text);
  const RunConfig digits = small_run("sgd");
  EXPECT_EQ(task_workload(digits, "")->write_text(digits, result.model, 100), "") << "no model of language";
}

// Clipping waits for the whole gradient, and nothing else changes when the limit is never reached.
TEST(Language, ClipsWhatIsTooLong) {
  RunConfig config = small_text_run("sgd");
  config.clip = 0.0;
  const auto plain = run(config).front().model;
  config.clip = 1e6;
  EXPECT_EQ(run(config).front().model, plain);
  config.clip = 1e-3;
  EXPECT_NE(run(config).front().model, plain);
}

}  // namespace
}  // namespace laconic
