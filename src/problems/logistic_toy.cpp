// The RegTop-k paper's toy: two workers with a point each, x1 = [scale, 1] and x2 = [−scale, 1], both of class +1;
// f_n(θ) = log(1 + exp(−θᵀx_n)), start [0, 1]. The first entries of the gradients are the large ones, and they cancel.

#include "laconic/error.h"
#include "problems/functions.h"
#include "problems/makers.h"

namespace laconic {
namespace {

class LogisticToy final : public Problem {
 public:
  LogisticToy(double scale, int workers) : Problem("logistic-toy", workers), scale_(static_cast<float>(scale)) {
    tensors_ = {{"weights", 2}};
    start_ = {0.0F, 1.0F};
  }

  double gradient(int worker, std::uint32_t /*step*/, View<const float> point, View<float> out) const override {
    const float first = feature(worker);
    const float margin = point[0] * first + point[1];
    const auto slope = static_cast<float>(-problems::logistic(-static_cast<double>(margin)));
    out[0] = slope * first;
    out[1] = slope;
    return problems::soft_plus(-static_cast<double>(margin));
  }

  double loss(View<const float> point) const override {
    double sum = 0.0;
    for (int worker = 0; worker < 2; ++worker) sum += problems::soft_plus(-margin(worker, point));
    return 0.5 * sum;
  }

  void shared_gradient(View<const float> point, View<float> out) const override {
    double first = 0.0;
    double second = 0.0;
    for (int worker = 0; worker < 2; ++worker) {
      const double slope = -0.5 * problems::logistic(-margin(worker, point));
      first += slope * static_cast<double>(feature(worker));
      second += slope;
    }
    out[0] = static_cast<float>(first);
    out[1] = static_cast<float>(second);
  }

 private:
  float feature(int worker) const { return worker == 0 ? scale_ : -scale_; }
  double margin(int worker, View<const float> point) const {
    return static_cast<double>(point[0]) * static_cast<double>(feature(worker)) + static_cast<double>(point[1]);
  }

  float scale_;
};

}  // namespace

std::unique_ptr<Problem> make_logistic_toy(const ProblemSettings& settings, int workers, std::uint64_t /*seed*/) {
  if (workers != 2) {
    throw InvalidConfig("logistic-toy has two workers with a point each, got " + std::to_string(workers) +
                        ": use 2 workers, or logistic-regression");
  }
  return std::make_unique<LogisticToy>(settings.number("scale"), workers);
}

}  // namespace laconic
