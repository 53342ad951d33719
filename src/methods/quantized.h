#pragma once

#include "base/layout.h"
#include "exchange/quantized_sum.h"
#include "laconic/error.h"
#include "methods/settings.h"

namespace laconic {

/// What the quantizing methods share: the exchange's options, and what a norm is taken over.
QuantizedSumOptions quantized_options(const Settings& settings);
Layout scope_layout(const Settings& settings, const std::vector<Tensor>& tensors);

}  // namespace laconic
