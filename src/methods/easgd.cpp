// EASGD: workers and a centre pull at each other (Zhang, Choromanska, LeCun 2015), the synchronous form.
//   1. every local step: x_m moves by the local optimizer on the worker's own gradient
//   2. every τ steps, with α = λ/M and the centre x_C as it was before:
//      x_m = (1 - α) x_m + α x_C
//      x_C = (1 - λ) x_C + λ·mean of the x_m before the pull
// A round: reduce(d) and broadcast(d), which is all-reduce(d). With fewer bits (rounds.h) x_C − Δ stands for the mean,
// and α is the share that a round takes from the worker's model: x_C plus all x_m less all errors is as before a round.

#include "kernels/descent/descent.h"
#include "methods/averaging_rounds.h"
#include "methods/makers.h"

namespace laconic {
namespace {

class Easgd : public AveragingRounds {
 public:
  using AveragingRounds::AveragingRounds;

 private:
  float pulled_share() const override { return pull_share() / static_cast<float>(ranks()); }  // α
  void pull(View<float> model, View<float> next_centre) override {
    blend(place(), pulled_share(), centre(), model);
    blend(place(), 1.0F - pull_share(), centre(), next_centre);
  }
};

}  // namespace

std::unique_ptr<ModelBase> make_easgd(const Settings& settings, const OptimizerOptions& optimizer,
                                        Communicator& communicator, Place& place) {
  return std::make_unique<Easgd>(settings, optimizer, communicator, place);
}

}  // namespace laconic
