#pragma once

#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "methods/harness.h"

namespace laconic::test {

/// The page's quantizer for all workers in float64, on the small model: the mean of what they sent, and what each did
/// not send. The random bits are the method's own, so that float32 and float64 round the same way up, except where a
/// draw, or half a level, lies so near to its threshold that the rounding of r decides.
struct QuantizerModel {
  using Vector = std::vector<double>;

  bool max_norm = false;
  bool by_tensor = true;    ///< else one norm for the model, which is then one tensor, or one for each fixed scope
  std::uint64_t chunk = 0;  ///< entries of a fixed scope, 0: none
  bool nearest = false;
  /// Owners quantize the sums of fixed scopes once more, and each adds the error to its own rest.
  bool requantizes = false;
  std::uint64_t seed = 0;

  struct Mean {
    Vector values;
    Vector magnitude;        ///< what the rounding of `values` is measured against, such as Σ|sent|/W
    std::vector<bool> open;  ///< a worker's draw is too near to call
    std::vector<Vector> rests;  ///< by rank
    Vector rest_magnitude;      ///< the same for the rests
  };
  /// What is quantized, by rank; s = 2^(bits−1) − 1 levels.
  Mean mean(const std::vector<std::vector<float>>& given, int bits, std::uint32_t step) const;

 private:
  struct Scope {
    std::size_t offset;
    std::size_t size;
    std::uint32_t tensor;
    std::uint64_t first;  ///< index in the tensor
  };
  /// Values as they are decoded; `slack` is how far float32 may be from each value, relative to 2^-24.
  struct Rounded {
    Vector values;
    std::vector<bool> open;
  };
  std::vector<Scope> scopes(std::size_t n) const;
  Rounded rounded(const Vector& values, const Vector& slack, double levels, const RandomStream& stream) const;
  void return_sums(double levels, std::uint32_t step, Mean& mean) const;
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
