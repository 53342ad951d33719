#pragma once

#include <cstdint>
#include <vector>

#include "methods/harness.h"

namespace laconic::test {

/// The page's quantizer for all workers in float64, on the small model: the mean of what they sent. The random bits are
/// the method's own, so that float32 and float64 round the same way up, except where a draw lies so near to its
/// threshold that the rounding of r decides.
struct QuantizerModel {
  using Vector = std::vector<double>;

  bool max_norm = false;
  bool by_tensor = true;  ///< else one norm for the model, which is then one tensor
  std::uint64_t seed = 0;

  struct Mean {
    Vector values;
    Vector magnitude;        ///< Σ|sent|/W: what rounding is measured against
    std::vector<bool> open;  ///< a worker's draw is too near to call
  };
  /// By rank; s = 2^(bits−1) − 1 levels.
  Mean mean(const std::vector<std::vector<float>>& gradients, int bits, std::uint32_t step) const;

 private:
  void add(const std::vector<float>& gradient, double levels, std::uint32_t step, std::uint32_t rank, Mean& mean) const;
};

double l2_norm(const std::vector<float>& values);
double l2_norm(const std::vector<double>& values);

/// DQ-SGD's bits before they are rounded, by its page; n counts steps from 0.
///   non-convex log2(τ‖g‖ + 1) + 1, convex log2(κ·α^((N−n)/2)·‖g‖ + 1) + 1
struct BitRuleModel {
  double factor = 0.0;  ///< τ or κ
  double alpha = 1.0;   ///< 1 for the non-convex rule
  double total_steps = 0.0;

  double exact_bits(double norm, double n) const;
  int bits(double norm, double n) const;
};

}  // namespace laconic::test
