#pragma once

#include <cstddef>
#include <vector>

#include "methods/harness.h"

namespace laconic::test {

/// Top-k and RegTop-k for one worker in float64, steps 1 to 5 of the page. mu = 0 is plain top-k.
struct SparseModel {
  using Numbers = std::vector<double>;

  double keep;
  double mu = 0.0;
  bool current = false;    ///< what the distortion is divided by; else the previous
  bool by_tensor = false;  ///< of the small model
  std::size_t each = 0;    ///< scopes of so many entries; 0: as by_tensor says
  int magnitudes = 0;      ///< that the values of a scope share, 1 (sign) or 2 (two); 0: values as they are
  Numbers residual{};
  Numbers last_a{};
  Numbers last_aggregate{};  ///< the caller's to set, after every step
  std::vector<bool> last_mask{};

  /// Returns what the worker sends, dense; its weight is 1/W.
  Numbers send(const Numbers& gradient, double weight);

 private:
  double sent_as(double value, const Numbers& selected) const;
};

/// A step of all workers: the mean of what they send, which they then know.
std::vector<double> sparse_mean(std::vector<SparseModel>& workers, const std::vector<std::vector<double>>& gradients);
std::vector<double> sparse_mean(std::vector<SparseModel>& workers, const std::vector<std::vector<float>>& gradients);

}  // namespace laconic::test
