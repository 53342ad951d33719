// Two classes, ell-2 regularised, strongly convex; worker n has points of its own:
// 1. truth w ~ N(0, 4²/dimension); features x ~ N(0, 1) + the worker's own mean, N(0, skew²);
// 2. label ±1, +1 with the chance 1 / (1 + exp(−wᵀx)); z = label · x;
// 3. f_n(θ) = mean log(1 + exp(−zᵀθ)) + (ridge/2)‖θ‖², over all points or over a batch drawn with replacement;
// 4. θ* by Newton's method on all workers' points, in float64.

#include <cmath>

#include "problems/functions.h"
#include "problems/linear_algebra.h"
#include "problems/makers.h"

namespace laconic {
namespace {

using problems::Definite;
using problems::normal;

constexpr int kNewtonSteps = 60;

class LogisticRegression final : public Problem {
  /// Which array a stream of draws fills: the tensor word of its counter.
  enum Array : std::uint32_t { kTruth, kMean, kFeatures, kLabel };

 public:
  LogisticRegression(const ProblemSettings& settings, int workers, std::uint64_t seed)
      : Problem("logistic-regression", workers),
        n_(settings.whole("dimension")),
        points_(settings.whole("points")),
        batch_(settings.whole("batch")),
        ridge_(settings.number("ridge")),
        seed_(seed) {
    tensors_ = even_tensors(n_, settings.whole("tensors"));
    start_.assign(n_, 0.0F);
    for (int worker = 0; worker < workers; ++worker) add_worker(worker, settings.number("skew"));
    find_optimum();
  }

  double gradient(int worker, std::uint32_t step, View<const float> point, View<float> out) const override {
    const float* data = data_.data() + static_cast<std::uint64_t>(worker) * points_ * n_;
    const RandomStream stream{seed_, step, static_cast<std::uint32_t>(worker), 0, Purpose::problem_noise};
    const auto ridge = static_cast<float>(ridge_);
    double squares = 0.0;
    for (std::uint64_t i = 0; i < n_; ++i) {
      out[i] = ridge * point[i];
      squares += static_cast<double>(point[i]) * static_cast<double>(point[i]);
    }
    const std::uint64_t count = batch_ == 0 ? points_ : batch_;
    const float share = 1.0F / static_cast<float>(count);
    double sum = 0.0;
    for (std::uint64_t taken = 0; taken < count; ++taken) {
      const std::uint64_t which = batch_ == 0 ? taken : draw_below(stream, taken, points_);
      const float* z = data + which * n_;
      const auto margin = static_cast<double>(problems::dot(z, point.data(), n_));
      const float weight = share * static_cast<float>(problems::logistic(-margin));
      for (std::uint64_t i = 0; i < n_; ++i) out[i] -= weight * z[i];
      sum += problems::soft_plus(-margin);
    }
    return sum / static_cast<double>(count) + 0.5 * ridge_ * squares;
  }

  double loss(View<const float> point) const override {
    const std::vector<double> wide(point.begin(), point.end());
    double sum = 0.0;
    for (std::uint64_t row = 0; row < rows(); ++row) sum += problems::soft_plus(-margin(row, wide));
    double squares = 0.0;
    for (const double value : wide) squares += value * value;
    return sum / static_cast<double>(rows()) + 0.5 * ridge_ * squares;
  }

  void shared_gradient(View<const float> point, View<float> out) const override {
    const auto slope = exact_gradient({point.begin(), point.end()});
    for (std::uint64_t i = 0; i < n_; ++i) out[i] = static_cast<float>(slope[i]);
  }

 private:
  std::uint64_t rows() const { return data_.size() / n_; }

  double margin(std::uint64_t row, const std::vector<double>& point) const {
    double sum = 0.0;
    for (std::uint64_t i = 0; i < n_; ++i) sum += static_cast<double>(data_[row * n_ + i]) * point[i];
    return sum;
  }

  void add_worker(int worker, double skew) {
    const RandomStream shared{seed_, 0, kSharedRank, 0, Purpose::problem_data};
    const RandomStream own{seed_, 0, static_cast<std::uint32_t>(worker), 0, Purpose::problem_data};
    const double spread = 4.0 / std::sqrt(static_cast<double>(n_));
    std::vector<double> row(n_);
    for (std::uint64_t point = 0; point < points_; ++point) {
      double score = 0.0;
      for (std::uint64_t i = 0; i < n_; ++i) {
        row[i] = normal(own.of_tensor(kFeatures), point * n_ + i);
        if (skew > 0.0) row[i] += skew * normal(own.of_tensor(kMean), i);
        score += row[i] * spread * normal(shared.of_tensor(kTruth), i);
      }
      const bool positive = problems::uniform(own.of_tensor(kLabel), point) < problems::logistic(score);
      for (const double value : row) data_.push_back(static_cast<float>(positive ? value : -value));
    }
  }

  std::vector<double> exact_gradient(const std::vector<double>& point) const {
    std::vector<double> slope(n_);
    for (std::uint64_t i = 0; i < n_; ++i) slope[i] = ridge_ * point[i];
    for (std::uint64_t row = 0; row < rows(); ++row) {
      const double weight = problems::logistic(-margin(row, point)) / static_cast<double>(rows());
      for (std::uint64_t i = 0; i < n_; ++i) slope[i] -= weight * static_cast<double>(data_[row * n_ + i]);
    }
    return slope;
  }

  /// Σ_rows weight(row)·z zᵀ / rows + ridge·I.
  template <class Weight>
  Definite second_derivative(const Weight& weight) const {
    std::vector<double> matrix(n_ * n_, 0.0);
    for (std::uint64_t row = 0; row < rows(); ++row) {
      const float* z = data_.data() + row * n_;
      const double share = weight(row) / static_cast<double>(rows());
      for (std::uint64_t i = 0; i < n_; ++i) {
        for (std::uint64_t j = 0; j < n_; ++j) {
          matrix[i * n_ + j] += share * static_cast<double>(z[i]) * static_cast<double>(z[j]);
        }
      }
    }
    for (std::uint64_t i = 0; i < n_; ++i) matrix[i * n_ + i] += ridge_;
    return {std::move(matrix), n_};
  }

  void find_optimum() {
    // A logistic function bends by at most a quarter; the mean of the losses is flat nowhere, the ridge sees to that.
    smoothness_ = second_derivative([](std::uint64_t) { return 0.25; }).largest_eigenvalue();
    convexity_ = ridge_;
    optimum_.assign(n_, 0.0);
    for (int step = 0; step < kNewtonSteps; ++step) {
      const auto slope = exact_gradient(optimum_);
      const auto way = second_derivative([this](std::uint64_t row) {
                         const double chance = problems::logistic(margin(row, optimum_));
                         return chance * (1.0 - chance);
                       }).solve(slope);
      double longest = 0.0;
      for (const double value : way) longest = std::max(longest, std::abs(value));
      const double damping = longest > 1.0 ? 1.0 / longest : 1.0;  // far from the optimum a full step may overshoot
      for (std::uint64_t i = 0; i < n_; ++i) optimum_[i] -= damping * way[i];
      if (longest < 1e-12) return;
    }
  }

  std::uint64_t n_;
  std::uint64_t points_;
  std::uint64_t batch_;
  double ridge_;
  std::uint64_t seed_;
  std::vector<float> data_;  ///< z of all workers' points, row by row
};

}  // namespace

std::unique_ptr<Problem> make_logistic_regression(const ProblemSettings& settings, int workers, std::uint64_t seed) {
  return std::make_unique<LogisticRegression>(settings, workers, seed);
}

}  // namespace laconic
