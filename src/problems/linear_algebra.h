#pragma once

#include <cstdint>
#include <vector>

namespace laconic::problems {

/// A symmetric positive definite matrix of float64, in rows, and its Cholesky factor. Used to solve for optima, once
/// per problem.
class Definite {
 public:
  /// Throws InvalidConfig if the matrix is not positive definite. O(n³).
  Definite(std::vector<double> matrix, std::uint64_t n);

  std::vector<double> solve(const std::vector<double>& right) const;
  std::vector<double> times(const std::vector<double>& vector) const;
  /// By power iteration and by inverse iteration, to about six digits.
  double largest_eigenvalue() const;
  double smallest_eigenvalue() const;

 private:
  std::uint64_t n_;
  std::vector<double> matrix_;
  std::vector<double> factor_;  ///< lower triangle
};

/// Σ a_i·b_i in float32. Sixteen partial sums are added in order, so the result does not depend on the machine's
/// vectors.
float dot(const float* a, const float* b, std::uint64_t n);

}  // namespace laconic::problems
