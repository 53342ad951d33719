#pragma once

#include "exchange/quantized_sum.h"
#include "laconic/error.h"
#include "methods/settings.h"
#include "methods/gradient_base.h"

namespace laconic {

/// What the quantizing methods share: the exchange's options, which throw InvalidConfig if they contradict each other;
/// whether a tensor's exchange is independent of the others (a requantized return is not: its norms are those of the
/// owners' ranges, which span tensors); and the exchanges.
QuantizedSumOptions quantized_options(const Settings& settings);
bool quantizes_by_tensor(const Settings& settings);
std::vector<std::unique_ptr<QuantizedSum>> quantized_sums(const Settings& settings, const QuantizedSumOptions& options,
                                                          const ChunkPipeline& pipeline, Place& place);

}  // namespace laconic
