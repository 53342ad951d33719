// Local SGD: plain averaging.
//   1. every local step: x_m moves by the local optimizer on the worker's own gradient
//   2. every τ steps: x_m = mean of all x_m
// A round: all-reduce(d). With fewer bits (rounds.h) 2 is x_m = x_C = x_C − Δ, and all that was not sent is owed.

#include "kernels/elementwise/elementwise.h"
#include "methods/averaging_rounds.h"
#include "methods/makers.h"

namespace laconic {
namespace {

class LocalSgd : public AveragingRounds {
 public:
  using AveragingRounds::AveragingRounds;

 private:
  void pull(View<float> model, View<float> next_centre) override { copy(place(), next_centre, model); }
};

}  // namespace

std::unique_ptr<ModelBase> make_localsgd(const Settings& settings, const OptimizerOptions& optimizer,
                                           Communicator& communicator, Place& place) {
  return std::make_unique<LocalSgd>(settings, optimizer, communicator, place);
}

}  // namespace laconic
