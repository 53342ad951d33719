#pragma once

#include "kernels/elementwise/elementwise.h"
#include "methods/rounds.h"

namespace laconic {

/// Rounds whose new centre is the mean of all models; a subclass says what a round does with it. A round: all-reduce(d),
/// or a sum of compressed differences.
class AveragingRounds : public RoundMethod {
 protected:
  using RoundMethod::RoundMethod;

 private:
  void make_exchanges() override {
    if (!compresses()) mean_ = std::make_unique<DenseSum>(communicator(), place(), parameters());
  }

  void meet(View<const float> model, View<float> next_centre, StatusView status, StepReport& report) override {
    if (compresses()) {
      write_difference(model, next_centre);
      return exchange_differences(next_centre, status, report);
    }
    copy(place(), model, next_centre);
    mean_->start(next_centre, status);
    mean_->finish();
    report.traffic += mean_->traffic();
  }

  std::unique_ptr<DenseSum> mean_;
};

}  // namespace laconic
