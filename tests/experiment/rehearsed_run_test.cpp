// The training loop with a model in a device's memory, which it must not touch itself: a place that rehearses a device
// ends the program where it does. The bits are those of a run in CPU memory.

#include <gtest/gtest.h>

#include "experiment/run.h"
#include "methods/table.h"
#include "support/method_names.h"
#include "support/placed_values.h"
#include "support/rehearsal.h"
#include "support/support.h"
#include "support/temporary_folder.h"

namespace laconic {
namespace {

/// A problem's worker on a place that rehearses a device. Its function is computed on copies.
class Rehearsing final : public Learner {
 public:
  explicit Rehearsing(std::unique_ptr<Learner> inner) : inner_(std::move(inner)) {}

  const std::vector<Tensor>& tensors() const override { return inner_->tensors(); }
  Place& place() override { return *place_; }
  std::string device() const override { return "a rehearsed device"; }
  void start(View<float> model) override {
    written(model, [&](View<float> here) { inner_->start(here); });
  }
  void start_apart(View<float> model) override {
    written(model, [&](View<float> here) { inner_->start_apart(here); });
  }
  double gradient(std::uint32_t step, View<float> model, View<float> gradient, const Ready& ready) override {
    std::vector<float> point = read(model);
    double loss = 0.0;
    written(gradient, [&](View<float> here) { loss = inner_->gradient(step, point, here, ready); });
    return loss;
  }
  void shared_gradient(std::uint32_t round, View<const float> model, View<float> gradient) override {
    const std::vector<float> point = read(model);
    written(gradient, [&](View<float> here) { inner_->shared_gradient(round, point, here); });
  }
  Evaluation evaluate(View<float> point, Communicator* group) override {
    std::vector<float> here = read(point);
    return inner_->evaluate(here, group);
  }

 private:
  std::vector<float> read(View<const float> values) {
    std::vector<float> here(values.size());
    copy_to_cpu(*place_, values, here.data());
    return here;
  }
  template <class Write>
  void written(View<float> values, Write&& write) {
    std::vector<float> here = read(values);
    write(View<float>(here));
    copy_from_cpu(*place_, here.data(), values);
  }

  std::unique_ptr<Learner> inner_;
  std::unique_ptr<Place> place_ = test::rehearsed_place();
};

class RehearsingWorkload final : public Workload {
 public:
  explicit RehearsingWorkload(const RunConfig& config)
      : inner_(problem_workload(make_problem(config.problem, config.problem_settings, config.workers, config.seed))) {}
  std::unique_ptr<Learner> make_learner(const RunConfig& config, int rank) const override {
    return std::make_unique<Rehearsing>(inner_->make_learner(config, rank));
  }
  std::optional<double> smoothness() const override { return inner_->smoothness(); }
  std::optional<double> convexity() const override { return inner_->convexity(); }

 private:
  std::unique_ptr<Workload> inner_;
};

RunConfig config_of(const std::string& method) {
  RunConfig config = default_config("logistic-regression", method);
  config.problem_settings = {{"dimension", 40}, {"points", 30}};
  config.workers = 3;
  config.adversaries = 1;  // whose gradient the loop inverts
  config.steps = 12;
  config.eval_interval = 4;
  config.checkpoint_interval = 8;
  if (method_row(method).has_parameter("period")) config.options.period = 4;
  return config;
}

TEST(RehearsedRun, HasTheBitsOfARunInCpuMemory) {
  for (const std::string& method : test::method_names()) {
    SCOPED_TRACE(method);
    test::rehearse_as("the training loop with " + method);
    const RunConfig config = config_of(method);
    const auto plain = run_threads(config);
    const test::TemporaryFolder folder;
    const RehearsingWorkload workload(config);
    const auto rehearsed = run_threads(config, workload, nullptr, {.folder = folder.path()});
    const auto kept = find_checkpoints(folder.path());
    ASSERT_EQ(kept.size(), 1U);
    const auto resumed = run_threads(config, workload, nullptr, {.resume = kept.front()});
    for (std::size_t rank = 0; rank < plain.size(); ++rank) {
      for (const auto& found : {rehearsed[rank], resumed[rank]}) {
        EXPECT_EQ(found.model, plain[rank].model) << rank;
        EXPECT_EQ(found.worker_model, plain[rank].worker_model) << rank;
        EXPECT_EQ(found.loss, plain[rank].loss) << rank;
        EXPECT_EQ(found.device, "a rehearsed device");
      }
      EXPECT_EQ(plain[rank].device, "cpu");
    }
  }
}

}  // namespace
}  // namespace laconic
