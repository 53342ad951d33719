#pragma once

#include "exchange/quantized_sum.h"
#include "laconic/error.h"
#include "methods/settings.h"
#include "methods/gradient_base.h"

namespace laconic {

/// What the quantizing methods share: the exchange's options, refused where they do not go together; whether a tensor
/// stands for itself (a requantized return has norms of the owners' shares, which lie across tensors); the exchanges.
QuantizedSumOptions quantized_options(const Settings& settings);
bool quantizes_by_tensor(const Settings& settings);
std::vector<std::unique_ptr<QuantizedSum>> quantized_sums(const Settings& settings, const QuantizedSumOptions& options,
                                                          const ChunkPipeline& pipeline, Place& place);

}  // namespace laconic
