#include "problems/linear_algebra.h"

#include <cmath>

#include "laconic/error.h"

namespace laconic::problems {
namespace {

constexpr int kIterations = 400;

double norm(const std::vector<double>& vector) {
  double squares = 0.0;
  for (const double value : vector) squares += value * value;
  return std::sqrt(squares);
}

/// The factor by which repeated `apply` stretches in the end.
template <class Apply>
double dominant(std::uint64_t n, const Apply& apply) {
  std::vector<double> vector(n);
  for (std::uint64_t i = 0; i < n; ++i) vector[i] = 1.0 + static_cast<double>(i % 7) / 7.0;
  double stretch = 0.0;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    const double length = norm(vector);
    for (double& value : vector) value /= length;
    vector = apply(vector);
    stretch = norm(vector);
  }
  return stretch;
}

}  // namespace

Definite::Definite(std::vector<double> matrix, std::uint64_t n)
    : n_(n), matrix_(std::move(matrix)), factor_(n * n, 0.0) {
  for (std::uint64_t i = 0; i < n; ++i) {
    for (std::uint64_t j = 0; j <= i; ++j) {
      double sum = matrix_[i * n + j];
      for (std::uint64_t k = 0; k < j; ++k) sum -= factor_[i * n + k] * factor_[j * n + k];
      if (i != j) {
        factor_[i * n + j] = sum / factor_[j * n + j];
        continue;
      }
      if (!(sum > 1e-12 * matrix_[i * n + i])) {
        throw InvalidConfig("the problem has no single optimum: give it more points than dimensions");
      }
      factor_[i * n + i] = std::sqrt(sum);
    }
  }
}

std::vector<double> Definite::solve(const std::vector<double>& right) const {
  std::vector<double> x = right;
  for (std::uint64_t i = 0; i < n_; ++i) {
    for (std::uint64_t k = 0; k < i; ++k) x[i] -= factor_[i * n_ + k] * x[k];
    x[i] /= factor_[i * n_ + i];
  }
  for (std::uint64_t i = n_; i-- > 0;) {
    for (std::uint64_t k = i + 1; k < n_; ++k) x[i] -= factor_[k * n_ + i] * x[k];
    x[i] /= factor_[i * n_ + i];
  }
  return x;
}

std::vector<double> Definite::times(const std::vector<double>& vector) const {
  std::vector<double> product(n_, 0.0);
  for (std::uint64_t i = 0; i < n_; ++i) {
    for (std::uint64_t j = 0; j < n_; ++j) product[i] += matrix_[i * n_ + j] * vector[j];
  }
  return product;
}

double Definite::largest_eigenvalue() const {
  return dominant(n_, [this](const std::vector<double>& vector) { return times(vector); });
}

double Definite::smallest_eigenvalue() const {
  return 1.0 / dominant(n_, [this](const std::vector<double>& vector) { return solve(vector); });
}

float dot(const float* a, const float* b, std::uint64_t n) {
  constexpr std::uint64_t kSums = 16;
  float sums[kSums] = {};
  std::uint64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (std::uint64_t lane = 0; lane < kSums; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (std::uint64_t lane = 0; i < n; ++i, ++lane) sums[lane] += a[i] * b[i];
  float total = 0.0F;
  for (const float sum : sums) total += sum;
  return total;
}

}  // namespace laconic::problems
