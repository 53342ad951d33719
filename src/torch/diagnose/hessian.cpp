#include "torch/diagnose/hessian.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

namespace laconic {
namespace {

/// Slices of a flat vector in the parameters' shapes; nothing is copied.
std::vector<torch::Tensor> parts_of(const float* flat, const std::vector<torch::Tensor>& like) {
  std::vector<torch::Tensor> parts;
  for (const torch::Tensor& part : like) {
    parts.push_back(torch::from_blob(const_cast<float*>(flat), part.sizes()));
    flat += part.numel();
  }
  return parts;
}

}  // namespace

void add_hessian_product(const torch::Tensor& loss, const std::vector<torch::Tensor>& parameters,
                         View<const float> vector, View<float> out) {
  const auto first = torch::autograd::grad({loss}, parameters, {}, true, true);
  const auto second = torch::autograd::grad(first, parameters, parts_of(vector.data(), parameters), false, false, true);
  const auto sums = parts_of(out.data(), parameters);
  for (std::size_t i = 0; i < second.size(); ++i) {
    // Where the gradient does not depend on a parameter there is nothing to add.
    if (second[i].defined()) sums[i].add_(second[i]);
  }
}

}  // namespace laconic
