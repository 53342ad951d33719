// Least squares of the RegTop-k paper, N workers with data of their own:
// 1. m_n ~ N(0, truth²); worker n's truth t_n = m_n·1 + N(0, I);
// 2. features A_n ~ N(0, 1), labels y_n = A_n t_n + N(0, noise);
// 3. f_n(θ) = ‖A_n θ − y_n‖² / points, gradient (2/points)·A_nᵀ(A_n θ − y_n), full batch;
// 4. θ* = the least squares of all workers' points together, in float64.
//
// The gradient is computed as H_n θ − b_n with H_n = (2/points) A_nᵀA_n and b_n = (2/points) A_nᵀy_n, made in float64
// and rounded once: dimension² operations instead of twice points·dimension.

#include <cmath>

#include "base/check.h"
#include "problems/functions.h"
#include "problems/linear_algebra.h"
#include "problems/makers.h"

namespace laconic {
namespace {

using problems::Definite;
using problems::normal;

class LinearRegression final : public Problem {
  /// Which array a stream of draws fills: the tensor word of its counter.
  enum Array : std::uint32_t { kMean, kTruth, kFeatures, kLabelNoise };

 public:
  LinearRegression(const ProblemSettings& settings, int workers, std::uint64_t seed)
      : Problem("linear-regression", workers),
        n_(settings.whole("dimension")),
        points_(settings.whole("points")),
        pooled_matrix_(n_ * n_, 0.0),
        pooled_right_(n_, 0.0) {
    tensors_ = {{"weights", n_}};
    start_.assign(n_, 0.0F);
    for (int worker = 0; worker < workers; ++worker) add_worker(settings, worker, seed);
    const double share = 1.0 / workers;
    for (double& value : pooled_matrix_) value *= share;
    for (double& value : pooled_right_) value *= share;
    pooled_constant_ *= share;
    const Definite hessian(pooled_matrix_, n_);
    optimum_ = hessian.solve(pooled_right_);
    smoothness_ = hessian.largest_eigenvalue();
    convexity_ = hessian.smallest_eigenvalue();
  }

  double gradient(int worker, std::uint32_t /*step*/, View<const float> point, View<float> out) const override {
    const Worker& mine = data_[static_cast<std::size_t>(worker)];
    double loss = mine.constant;
    for (std::uint64_t i = 0; i < n_; ++i) {
      const float product = problems::dot(mine.matrix.data() + i * n_, point.data(), n_);
      out[i] = product - mine.right[i];
      loss += static_cast<double>(point[i]) * (0.5 * static_cast<double>(product) - static_cast<double>(mine.right[i]));
    }
    return loss;
  }

  double loss(View<const float> point) const override {
    double loss = pooled_constant_;
    for (std::uint64_t i = 0; i < n_; ++i) {
      double product = 0.0;
      for (std::uint64_t j = 0; j < n_; ++j) product += pooled_matrix_[i * n_ + j] * static_cast<double>(point[j]);
      loss += static_cast<double>(point[i]) * (0.5 * product - pooled_right_[i]);
    }
    return loss;
  }

  void shared_gradient(View<const float> point, View<float> out) const override {
    for (std::uint64_t i = 0; i < n_; ++i) {
      double product = 0.0;
      for (std::uint64_t j = 0; j < n_; ++j) product += pooled_matrix_[i * n_ + j] * static_cast<double>(point[j]);
      out[i] = static_cast<float>(product - pooled_right_[i]);
    }
  }

 private:
  struct Worker {
    std::vector<float> matrix;
    std::vector<float> right;
    double constant = 0.0;
  };

  void add_worker(const ProblemSettings& settings, int worker, std::uint64_t seed) {
    const RandomStream stream{seed, 0, static_cast<std::uint32_t>(worker), 0, Purpose::problem_data};
    const double mean = settings.number("truth") * normal(stream.of_tensor(kMean), 0);
    const double noise = std::sqrt(settings.number("noise"));
    std::vector<double> truth(n_);
    for (std::uint64_t i = 0; i < n_; ++i) truth[i] = mean + normal(stream.of_tensor(kTruth), i);

    const double weight = 2.0 / static_cast<double>(points_);
    std::vector<double> matrix(n_ * n_, 0.0);
    std::vector<double> right(n_, 0.0);
    std::vector<double> row(n_);
    double constant = 0.0;
    for (std::uint64_t point = 0; point < points_; ++point) {
      double label = noise * normal(stream.of_tensor(kLabelNoise), point);
      for (std::uint64_t i = 0; i < n_; ++i) {
        row[i] = normal(stream.of_tensor(kFeatures), point * n_ + i);
        label += row[i] * truth[i];
      }
      for (std::uint64_t i = 0; i < n_; ++i) {
        const double scaled = weight * row[i];
        for (std::uint64_t j = 0; j < n_; ++j) matrix[i * n_ + j] += scaled * row[j];
        right[i] += scaled * label;
      }
      constant += 0.5 * weight * label * label;
    }

    for (std::size_t i = 0; i < matrix.size(); ++i) pooled_matrix_[i] += matrix[i];
    for (std::size_t i = 0; i < right.size(); ++i) pooled_right_[i] += right[i];
    pooled_constant_ += constant;
    data_.push_back({{matrix.begin(), matrix.end()}, {right.begin(), right.end()}, constant});
  }

  std::uint64_t n_;
  std::uint64_t points_;
  std::vector<Worker> data_;
  std::vector<double> pooled_matrix_;
  std::vector<double> pooled_right_;
  double pooled_constant_ = 0.0;
};

}  // namespace

std::unique_ptr<Problem> make_linear_regression(const ProblemSettings& settings, int workers, std::uint64_t seed) {
  return std::make_unique<LinearRegression>(settings, workers, seed);
}

}  // namespace laconic
