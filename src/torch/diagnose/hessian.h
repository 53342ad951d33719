#pragma once

#include <torch/types.h>

#include <vector>

#include "laconic/view.h"

namespace laconic {

/// out += H·vector, where H is the Hessian of `loss` (one number, with its graph) with respect to the parameters, which
/// lie one after another in both views. It is the gradient of gradient·vector (Pearlmutter 1994), computed by two
/// backward passes. The parameters' own gradients are not changed.
void add_hessian_product(const torch::Tensor& loss, const std::vector<torch::Tensor>& parameters,
                         View<const float> vector, View<float> out);

}  // namespace laconic
