#pragma once

#include <torch/types.h>

#include <vector>

#include "laconic/view.h"

namespace laconic {

/// out += H·vector, H the second derivatives of `loss` (one number, with its graph) by the parameters, which lie one
/// after the other in both views: the gradient of gradient·vector (Pearlmutter 1994), by backward twice. The
/// parameters' own gradients are not touched.
void add_hessian_product(const torch::Tensor& loss, const std::vector<torch::Tensor>& parameters,
                         View<const float> vector, View<float> out);

}  // namespace laconic
