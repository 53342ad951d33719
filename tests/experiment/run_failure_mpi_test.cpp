// A rank that cannot go on tells the others why. In a program of its own: after a failure MPI may still touch what was
// in flight.

#include <gtest/gtest.h>

#include "experiment/run.h"
#include "laconic/error.h"
#include "laconic/mpi.h"

namespace laconic {
namespace {

/// A problem in closed form that the last rank cannot go on with.
class Breaking final : public Learner {
 public:
  Breaking(std::unique_ptr<Learner> inner, bool breaks) : inner_(std::move(inner)), breaks_(breaks) {}

  const std::vector<Tensor>& tensors() const override { return inner_->tensors(); }
  Place& place() override { return inner_->place(); }
  void start(View<float> model) override { inner_->start(model); }
  double gradient(std::uint32_t step, View<float> model, View<float> gradient, const Ready& ready) override {
    if (breaks_ && step == 3) throw Error("the data of step 3 cannot be read");
    return inner_->gradient(step, model, gradient, ready);
  }
  void shared_gradient(std::uint32_t round, View<const float> model, View<float> gradient) override {
    inner_->shared_gradient(round, model, gradient);
  }
  Evaluation evaluate(View<float> point, Communicator* group) override { return inner_->evaluate(point, group); }

 private:
  std::unique_ptr<Learner> inner_;
  bool breaks_;
};

class BreakingWorkload final : public Workload {
 public:
  explicit BreakingWorkload(const RunConfig& config)
      : inner_(problem_workload(make_problem(config.problem, config.problem_settings, config.workers, config.seed))) {}

  std::unique_ptr<Learner> make_learner(const RunConfig& config, int rank) const override {
    return std::make_unique<Breaking>(inner_->make_learner(config, rank), rank == config.workers - 1);
  }

 private:
  std::unique_ptr<Workload> inner_;
};

// Every rank can tell why, whichever of them is asked.
TEST(MpiRunFailure, IsToldToTheOthersWithItsReason) {
  RunConfig config = default_config("logistic-regression");
  MPI_Comm_size(MPI_COMM_WORLD, &config.workers);
  const int breaking = config.workers - 1;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::string said;
  try {
    const auto communicator = mpi_communicator(MPI_COMM_WORLD);
    Observer silent;
    run_worker(config, BreakingWorkload(config), *communicator, silent);
  } catch (const Error& error) {
    said = error.what();
  }
  const std::string reason = "the data of step 3 cannot be read";
  const std::string told = "rank " + std::to_string(breaking) + " failed: " + reason;
  EXPECT_EQ(said.substr(0, rank == breaking ? reason.size() : told.size()), rank == breaking ? reason : told) << said;
}

}  // namespace
}  // namespace laconic
