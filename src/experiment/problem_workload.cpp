#include "experiment/run.h"
#include "laconic/error.h"

namespace laconic {
namespace {

class ProblemLearner final : public Learner {
 public:
  ProblemLearner(const Problem& problem, int worker, int threads)
      : problem_(problem), worker_(worker), place_({.threads = threads}) {}

  const std::vector<Tensor>& tensors() const override { return problem_.tensors(); }
  Place& place() override { return place_; }
  void start(View<float> model) override { put(problem_.start(), model); }
  void start_apart(View<float> model) override { put(problem_.start_of(worker_), model); }
  double gradient(std::uint32_t step, View<float> model, View<float> gradient, const Ready& /*ready*/) override {
    return problem_.gradient(worker_, step, model, gradient);
  }
  void shared_gradient(std::uint32_t /*round*/, View<const float> model, View<float> gradient) override {
    problem_.shared_gradient(model, gradient);
  }
  Evaluation evaluate(View<float> point, Communicator* /*group*/) override {
    return {.loss = problem_.loss(point), .distance = problem_.distance(point)};
  }

 private:
  static void put(const std::vector<float>& point, View<float> model) {
    std::copy(point.begin(), point.end(), model.data());
  }

  const Problem& problem_;
  int worker_;
  Place place_;
};

class ProblemWorkload final : public Workload {
 public:
  explicit ProblemWorkload(const Problem& problem) : problem_(problem) {}
  explicit ProblemWorkload(std::unique_ptr<Problem> problem) : owned_(std::move(problem)), problem_(*owned_) {}

  std::unique_ptr<Learner> make_learner(const RunConfig& config, int rank) const override {
    if (problem_.workers() != config.workers) {
      throw InvalidConfig("the run has " + std::to_string(config.workers) + " workers, its problem " +
                          std::to_string(problem_.workers()) + ": both must be the same");
    }
    return std::make_unique<ProblemLearner>(problem_, rank, config.threads);
  }
  std::optional<double> smoothness() const override { return problem_.smoothness(); }
  std::optional<double> convexity() const override { return problem_.convexity(); }

 private:
  std::unique_ptr<Problem> owned_;
  const Problem& problem_;
};

}  // namespace

std::unique_ptr<Workload> problem_workload(const Problem& problem) {
  return std::make_unique<ProblemWorkload>(problem);
}

std::unique_ptr<Workload> problem_workload(std::unique_ptr<Problem> problem) {
  return std::make_unique<ProblemWorkload>(std::move(problem));
}

}  // namespace laconic
