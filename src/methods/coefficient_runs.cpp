#include "methods/coefficient_runs.h"

#include <algorithm>

namespace laconic {

void CoefficientRuns::prepare(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) sizes_.push_back(tensor.size);
  coefficients_.resize(tensors.size());
}

void CoefficientRuns::set(const Coefficients& all) { std::fill(coefficients_.begin(), coefficients_.end(), all); }

void CoefficientRuns::set(std::span<const Coefficients> each) {
  std::copy(each.begin(), each.end(), coefficients_.begin());
}

bool CoefficientRuns::any_momentum() const {
  return std::any_of(coefficients_.begin(), coefficients_.end(),
                     [](const Coefficients& each) { return each.momentum != 0.0F; });
}

}  // namespace laconic
