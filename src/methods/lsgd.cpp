// LSGD: everybody follows a leader (Teng et al. 2019).
//   1. every local step: x_m moves by the local optimizer; proximity x_m = (1 - µ/τ) x_m + (µ/τ) x_C
//   2. every τ steps: the leader is the worker with the lowest recent training loss, the lowest rank among equals
//   3. x_C = the leader's model
//   4. x_m = (1 - λ) x_m + λ x_C
// Recent: the mean over the local steps since the last round; a worker that made none since has its last one, a worker
// that never made one, or whose loss is infinite, comes after all others. A NaN from a worker that never gave a loss is
// one that was forgotten, and refused. A later one is treated as a gradient that is not finite.
// A round: 1 float each and broadcast(d). With fewer bits (rounds.h) 3 is x_C = x_C − what the leader sent of its
// difference. The errors of the others shrink as their models are pulled.

#include <cmath>
#include <limits>
#include <string>

#include "exchange/broadcast.h"
#include "exchange/gathered_numbers.h"
#include "kernels/elementwise/elementwise.h"
#include "laconic/nonfinite.h"
#include "methods/makers.h"
#include "methods/rounds.h"

namespace laconic {
namespace {

constexpr double kNoLoss = std::numeric_limits<double>::infinity();

class Lsgd : public RoundMethod {
 public:
  Lsgd(const Settings& settings, const OptimizerOptions& optimizer, Communicator& communicator, Place& place)
      : RoundMethod(settings, optimizer, communicator, place, Senders::leader) {}

 private:
  void make_exchanges() override {
    losses_ = std::make_unique<GatheredNumbers>(communicator(), place(), 1);
    if (!compresses()) broadcast_ = std::make_unique<Broadcast>(communicator(), place(), parameters());
  }

  void check(const StepInput& input, View<const float> gradient, StatusView status) override {
    RoundMethod::check(input, gradient, status);
    if (!std::isnan(input.loss) || read_status(place(), status).nonfinite != 0) return;
    const std::string found = name() + ": rank " + std::to_string(rank()) + " has a loss of NaN at step " +
                              std::to_string(input.key.step) + " (counted from 0): ";
    if (loss_count_ == 0.0 && last_loss_ == kNoLoss) {
      refuse(found + "give each step the loss of its batch, by which the leader is elected");
    }
    if (policy() == NonfinitePolicy::error) refuse<NonfiniteValue>(found + MethodCore::kNonfiniteRemedy);
    raise_nonfinite(place(), status);
  }

  void observe(const StepInput& input) override {
    loss_sum_ += static_cast<double>(input.loss);
    loss_count_ += 1.0;
  }

  double recent_loss() const {
    const double recent = loss_count_ > 0.0 ? loss_sum_ / loss_count_ : last_loss_;
    return std::isfinite(recent) ? recent : kNoLoss;
  }

  void meet(View<const float> model, View<float> next_centre, StatusView status, StepReport& report) override {
    const auto mine = static_cast<float>(recent_loss());
    losses_->start(View<const float>(&mine, 1), status);
    losses_->finish();
    int leader = 0;
    for (int other = 1; other < ranks(); ++other) {
      if (losses_->of(other)[0] < losses_->of(leader)[0]) leader = other;
    }
    report.traffic += losses_->traffic();
    report.extra = leader;
    if (compresses()) {
      write_difference(model, next_centre);
      return exchange_differences(leader, next_centre, status, report);
    }
    if (rank() == leader) copy(place(), model, next_centre);
    broadcast_->start(next_centre, leader, status);
    broadcast_->finish();
    report.traffic += broadcast_->traffic();
  }

  void begin_period() override {
    last_loss_ = recent_loss();
    loss_sum_ = 0.0;
    loss_count_ = 0.0;
  }

  void save_memory(State& state) const override {
    RoundMethod::save_memory(state);
    state.put("loss sum", loss_sum_);
    state.put("loss count", loss_count_);
    state.put("last loss", last_loss_);
  }

  /// Losses are the host's, and may be anything.
  void require_loadable_memory(const State& state) const override {
    RoundMethod::require_loadable_memory(state);
    state.count("loss count");
  }

  void load_memory(const State& state) override {
    RoundMethod::load_memory(state);
    loss_sum_ = state.number("loss sum");
    loss_count_ = state.number("loss count");
    last_loss_ = state.number("last loss");
  }

  std::unique_ptr<GatheredNumbers> losses_;
  std::unique_ptr<Broadcast> broadcast_;
  double loss_sum_ = 0.0;
  double loss_count_ = 0.0;
  double last_loss_ = kNoLoss;
};

}  // namespace

std::unique_ptr<ModelBase> make_lsgd(const Settings& settings, const OptimizerOptions& optimizer,
                                       Communicator& communicator, Place& place) {
  return std::make_unique<Lsgd>(settings, optimizer, communicator, place);
}

}  // namespace laconic
