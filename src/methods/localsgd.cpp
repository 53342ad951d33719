// Local SGD: plain averaging.
//   1. every local step: x_m moves by the local optimizer on the worker's own gradient
//   2. every τ steps: x_m = mean of all x_m
// A round: all-reduce(d).

#include "kernels/elementwise/elementwise.h"
#include "methods/makers.h"
#include "methods/rounds.h"

namespace laconic {
namespace {

class LocalSgd : public RoundMethod {
 public:
  using RoundMethod::RoundMethod;

 private:
  void make_exchanges() override { mean_ = std::make_unique<DenseSum>(communicator(), place(), parameters()); }

  void meet(View<const float> model, View<float> next_centre, StatusView status, StepReport& report) override {
    copy(place(), model, next_centre);
    mean_->start(next_centre, status);
    mean_->finish();
    report.traffic += mean_->traffic();
  }

  void pull(View<float> model, View<float> next_centre) override { copy(place(), next_centre, model); }

  std::unique_ptr<DenseSum> mean_;
};

}  // namespace

std::unique_ptr<ModelBase> make_localsgd(const Settings& settings, const OptimizerOptions& optimizer,
                                           Communicator& communicator, Place& place) {
  return std::make_unique<LocalSgd>(settings, optimizer, communicator, place);
}

}  // namespace laconic
