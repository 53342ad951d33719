// DQ-SGD (Yan, Huang, Lan, Song 2021): the bits are chosen step by step from the gradient's norm.
//   1. B_n from the rule (bit_rule.h) and the norm; one B for the whole model, the same on all ranks
//   2. quantize to B_n bits as QSGD does
//   3. everyone: g = mean of what the workers sent
// The norm is, by norm_source:
//   workers    the mean over the last `window` steps of the workers' mean norm; each payload carries its rank's
//   aggregate  the mean over the last `window` steps of the aggregate's norm, which quantization noise inflates
//   exact      this step's mean norm of the workers, gathered before (4 bytes from each)
// The first step has no steps before it and gathers. No error feedback.

#include <cmath>

#include "exchange/gathered_numbers.h"
#include "kernels/norm/norm.h"
#include "methods/bit_rule.h"
#include "methods/makers.h"
#include "methods/quantized.h"

namespace laconic {
namespace {

class Dqsgd : public GradientMethod {
 public:
  Dqsgd(const Settings& settings, Communicator& communicator, Place& place)
      : GradientMethod(settings.method(), communicator, place),
        settings_(settings),
        options_(quantized_options(settings)),
        from_aggregate_(settings.is("norm_source", "aggregate")),
        exact_(settings.is("norm_source", "exact")),
        window_(static_cast<std::size_t>(settings.number("window"))) {}

 private:
  void prepare() override {
    rule_ = std::make_unique<BitRule>(settings_, parameters());
    norms_.reserve(window_);
    regrouped();
  }

  void regrouped() override {
    sum_ = std::make_unique<QuantizedSum>(communicator(), place(), scope_layout(settings_, tensors()), options_);
    gathered_ = std::make_unique<GatheredNumbers>(communicator(), place(), 1);
  }

  void aggregate(StepKey key, View<float> gradient, StatusView status, StepReport& report) override {
    const float own = finite_norm(gradient, status, report);
    const bool gathers = exact_ || norms_.empty();
    const double norm = gathers ? gathered_mean(own, report) : mean(norms_);
    const int bits = rule_->bits(norm);
    sum_->start(gradient, bits, key, gradient, status, own);
    locate_nonfinite(gradient, status[0]);
    sum_->finish();
    report.traffic += sum_->traffic();
    report.bits = bits;
    report.extra = norm;
    next_norm_ = from_aggregate_ ? double{finite_norm(gradient, status, report)} : mean(sum_->own_norms());
    next_bits_ = bits;
    rule_norm_ = norm;
  }

  void commit() override {
    rule_->spent(next_bits_, rule_norm_);
    if (norms_.size() == window_) norms_.erase(norms_.begin());
    norms_.push_back(next_norm_);
  }

  /// ℓ2 norm of the whole view; 0, with the flag set, where it is not finite.
  float finite_norm(View<const float> values, StatusView status, StepReport& report) {
    const Stopwatch watch(report.select_seconds);
    float result = 0.0F;
    norm(place(), values, Norm::l2, View<float>(&result, 1), status);
    return std::isfinite(result) ? result : 0.0F;
  }

  double gathered_mean(float own, StepReport& report) {
    Status status;
    gathered_->start(View<const float>(&own, 1), view_of(status));
    gathered_->finish();
    report.traffic += gathered_->traffic();
    double sum = 0.0;
    for (int rank = 0; rank < ranks(); ++rank) sum += double{gathered_->of(rank)[0]};
    return sum / ranks();
  }

  template <class Numbers>
  static double mean(const Numbers& numbers) {
    double sum = 0.0;
    for (const auto number : numbers) sum += static_cast<double>(number);
    return sum / static_cast<double>(numbers.size());
  }

  void save_memory(State& state) const override {
    rule_->save(state);
    state.put("norms known", static_cast<double>(norms_.size()));
    for (std::size_t i = 0; i < norms_.size(); ++i) state.put("norm " + std::to_string(i), norms_[i]);
  }

  void load_memory(const State& state) override {
    rule_->load(state);
    norms_.clear();
    const auto known = static_cast<std::size_t>(state.number("norms known"));
    for (std::size_t i = 0; i < known; ++i) norms_.push_back(state.number("norm " + std::to_string(i)));
  }

  Settings settings_;
  QuantizedSumOptions options_;
  bool from_aggregate_;
  bool exact_;
  std::size_t window_;
  std::vector<double> norms_;  ///< of the last steps, oldest first
  double next_norm_ = 0.0;
  double rule_norm_ = 0.0;
  int next_bits_ = 0;
  std::unique_ptr<BitRule> rule_;
  std::unique_ptr<QuantizedSum> sum_;
  std::unique_ptr<GatheredNumbers> gathered_;
};

}  // namespace

std::unique_ptr<GradientMethod> make_dqsgd(const Settings& settings, Communicator& communicator, Place& place) {
  return std::make_unique<Dqsgd>(settings, communicator, place);
}

}  // namespace laconic
