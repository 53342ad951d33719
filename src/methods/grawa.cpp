// GRAWA: averaging with weights 1/‖gradient‖ (Dimlioglu, Choromanska 2024). A layer is a registered tensor.
//   1. every local step: x_m moves by the local optimizer; proximity x_m = (1 - µ/τ) x_m + (µ/τ) x_C
//   2. every τ steps: gradients G_k of each layer at x_m on a batch that all workers share (score = shared),
//      or the running mean of the mini-batch gradients' norms since the last round (score = local)
//   3. MGRAWA: A_m = Σ_k ‖G_k‖; LGRAWA: A_m^k = ‖G_k‖, layer by layer
//      smoothed over rounds: s = γ s + (1 - γ) A, bias-corrected by 1 - γⁿ
//      β_m = s_m⁻¹ / Σ_j s_j⁻¹
//   4. x_C = Σ_m β_m x_m
//   5. x_m = (1 - λ) x_m + λ x_C
// A round: all-reduce(1), or of the layers' number, and all-reduce(d). Memory: s, and the norms of score = local.
// With fewer bits (rounds.h) the weight of a difference is w_m = M β_m, by layer in LGRAWA, so that the mean of the
// weighted differences is x_C − Σ_m β_m x_m. The weights come before the coding: e is in the unit of what is sent.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/buffer.h"
#include "base/transfer.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "laconic/error.h"
#include "methods/makers.h"
#include "methods/rounds.h"

namespace laconic {
namespace {

/// Stands for a norm of zero: its inverse, and the sum of many, are still finite in float32.
constexpr double kZeroNorm = 1e-30;

class Grawa : public RoundMethod {
 public:
  Grawa(bool by_layer, const Settings& settings, const OptimizerOptions& optimizer, Communicator& communicator,
        Place& place)
      : RoundMethod(settings, optimizer, communicator, place),
        by_layer_(by_layer),
        local_(settings.is("score", "local")),
        smoothing_(settings.number("smoothing")) {}

 private:
  void prepare() override {
    const std::size_t scores = by_layer_ ? tensors().size() : 1;
    for (auto* each : {&norms_, &smoothed_, &next_smoothed_, &inverse_, &sums_, &local_norms_}) {
      each->assign(scores, 0.0F);
    }
    for (const Tensor& tensor : tensors()) sizes_.push_back(tensor.size);
    squares_.resize(tensors().size());
    shared_scores_.reserve(place(), scores);
    RoundMethod::prepare();
  }

  void make_exchanges() override {
    score_sum_ =
        std::make_unique<DenseSum>(communicator(), place(), smoothed_.size(), DenseSumOptions{.divide = false});
    if (compresses()) return;
    model_sum_ = std::make_unique<DenseSum>(communicator(), place(), parameters(), DenseSumOptions{.divide = false});
  }

  /// The norms of score = local say as well whether all is finite, in the one pass.
  void check(const StepInput& input, View<const float> gradient, StatusView status) override {
    if (!local_) return RoundMethod::check(input, gradient, status);
    take_norms(gradient, status);
  }

  void observe(const StepInput& /*input*/) override {
    if (!local_) return;
    for (std::size_t k = 0; k < norms_.size(); ++k) local_norms_[k] += norms_[k];
    local_steps_ += 1.0;
  }

  void meet(View<const float> model, View<float> next_centre, StatusView status, StepReport& report) override {
    {
      const Stopwatch watch(report.select_seconds);
      score(model, next_centre, status);
      invert();
    }
    const View<float> shared = shared_scores_.view(inverse_.size());
    copy_from_cpu<float>(place(), inverse_.data(), shared);
    score_sum_->start(shared, status);
    score_sum_->finish();
    copy_to_cpu<float>(place(), shared, sums_.data());
    report.traffic += score_sum_->traffic();
    if (read_status(place(), status).nonfinite != 0) return;
    report.extra = 0.0;
    if (compresses()) write_difference(model, next_centre);
    std::uint64_t offset = 0;
    for (std::size_t k = 0; k < inverse_.size(); ++k) {
      // Nobody has a score where nobody made a step that counted: plain averaging.
      const float weight = sums_[k] > 0.0F ? inverse_[k] / sums_[k] : 1.0F / static_cast<float>(ranks());
      const std::uint64_t size = by_layer_ ? tensors()[k].size : parameters();
      weigh(weight, model.sub(offset, size), next_centre.sub(offset, size), status);
      offset += size;
      report.extra += static_cast<double>(weight) / static_cast<double>(inverse_.size());
    }
    if (compresses()) return exchange_differences(next_centre, status, report);
    model_sum_->start(next_centre, status);
    model_sum_->finish();
    report.traffic += model_sum_->traffic();
  }

  /// A layer's share of the sum of models, or of the mean of differences.
  void weigh(float weight, View<const float> model, View<float> out, StatusView status) {
    if (compresses()) return scale(place(), weight * static_cast<float>(ranks()), out);
    weighted_sum(place(), {&model, 1}, {&weight, 1}, out, status);
  }

  void pull(View<float> model, View<float> next_centre) override {
    if (scored_) {
      smoothed_.swap(next_smoothed_);
      rounds_scored_ += 1.0;
    }
    RoundMethod::pull(model, next_centre);
  }

  void begin_period() override {
    std::fill(local_norms_.begin(), local_norms_.end(), 0.0F);
    local_steps_ = 0.0;
  }

  /// This round's A into norms_; none where a worker made no step since the last round. `scratch` has the model's size.
  void score(View<const float> model, View<float> scratch, StatusView status) {
    scored_ = !local_ || local_steps_ > 0.0;
    if (!scored_) return;
    if (local_) {
      for (std::size_t k = 0; k < norms_.size(); ++k) {
        norms_[k] = static_cast<float>(static_cast<double>(local_norms_[k]) / local_steps_);
      }
      return;
    }
    if (!scoring()) {
      refuse(name() +
             ": score = shared needs a scoring function, the gradient on a batch that all workers share: "
             "call set_scoring() before the first round, or use score = local");
    }
    try {
      scoring()(model, scratch);
    } catch (const std::exception& error) {
      communicator().fail(error.what());
      throw;
    }
    take_norms(scratch, status);
    core().locate_nonfinite(scratch, read_status(place(), status));
  }

  void take_norms(View<const float> gradient, StatusView status) {
    std::fill(norms_.begin(), norms_.end(), 0.0F);
    read_sums_of_squares(place(), gradient, sizes_, squares_, status);
    double all = 0.0;
    for (std::size_t tensor = 0; tensor < squares_.size(); ++tensor) {
      if (by_layer_) norms_[tensor] = static_cast<float>(std::sqrt(squares_[tensor]));
      all += std::sqrt(squares_[tensor]);
    }
    if (!by_layer_) norms_[0] = static_cast<float>(all);
  }

  /// Smoothes and corrects, and inverts what the weights are made of. A worker without a score in this round goes by
  /// the rounds before; one that never had any weighs nothing.
  void invert() {
    const double rounds = rounds_scored_ + (scored_ ? 1.0 : 0.0);
    const double correction = 1.0 - std::pow(smoothing_, rounds);
    for (std::size_t k = 0; k < norms_.size(); ++k) {
      const double before = smoothed_[k];
      const double norm = std::max(static_cast<double>(norms_[k]), kZeroNorm);
      next_smoothed_[k] = static_cast<float>(scored_ ? smoothing_ * before + (1.0 - smoothing_) * norm : before);
      inverse_[k] = rounds > 0.0 ? static_cast<float>(correction / static_cast<double>(next_smoothed_[k])) : 0.0F;
    }
  }

  void save_memory(State& state) const override {
    RoundMethod::save_memory(state);
    state.put("scores", View<const float>(smoothed_));
    state.put("rounds scored", rounds_scored_);
    state.put("local norms", View<const float>(local_norms_));
    state.put("local steps", local_steps_);
  }

  void require_loadable_memory(const State& state) const override {
    RoundMethod::require_loadable_memory(state);
    for (const char* count : {"rounds scored", "local steps"}) state.count(count);
    // A norm beyond float32 is infinite, and its weight 0.
    for (const char* norms : {"scores", "local norms"}) {
      state.require_in(norms, 0.0, std::numeric_limits<double>::infinity());
    }
  }

  void load_memory(const State& state) override {
    RoundMethod::load_memory(state);
    state.get("scores", View<float>(smoothed_));
    rounds_scored_ = state.number("rounds scored");
    state.get("local norms", View<float>(local_norms_));
    local_steps_ = state.number("local steps");
  }

  bool by_layer_;
  bool local_;
  double smoothing_;
  std::unique_ptr<DenseSum> score_sum_;
  std::unique_ptr<DenseSum> model_sum_;
  std::vector<std::uint64_t> sizes_;  ///< of each tensor
  std::vector<double> squares_;       ///< of each tensor's gradient
  Buffer<float> shared_scores_;       ///< where the scores are summed
  std::vector<float> norms_;          ///< A of this round, or of one mini-batch
  std::vector<float> smoothed_;       ///< s
  std::vector<float> next_smoothed_;  ///< s if the round counts
  std::vector<float> inverse_;        ///< bias-corrected s, inverted
  std::vector<float> sums_;           ///< and summed over the workers
  std::vector<float> local_norms_;    ///< sums since the last round
  double local_steps_ = 0.0;
  double rounds_scored_ = 0.0;
  bool scored_ = false;
};

}  // namespace

std::unique_ptr<ModelBase> make_mgrawa(const Settings& settings, const OptimizerOptions& optimizer,
                                         Communicator& communicator, Place& place) {
  return std::make_unique<Grawa>(false, settings, optimizer, communicator, place);
}

std::unique_ptr<ModelBase> make_lgrawa(const Settings& settings, const OptimizerOptions& optimizer,
                                         Communicator& communicator, Place& place) {
  return std::make_unique<Grawa>(true, settings, optimizer, communicator, place);
}

}  // namespace laconic
