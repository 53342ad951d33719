#pragma once

#include "experiment/run.h"
#include "methods/optimizer.h"

namespace laconic {

/// Whether ranks step at their own pace and meet only in rounds.
bool is_asynchronous(const RunConfig& config);

/// Whether the method allows workers to have different models between rounds.
bool models_may_differ(const RunConfig& config);

/// Whether each worker may start at its own point: in rounds around a centre. Other methods share their start.
bool workers_start_apart(const RunConfig& config);

/// The settings with which an optimizer of that name steps a network by the configuration's method, unless others are
/// given.
OptimizerOptions usual_optimizer(const RunConfig& config, const std::string& name);

/// The learning rate with which an optimizer of that kind steps a network, unless another is given: that of the method
/// adam for Adam-like ones, otherwise the one that tasks have in common.
double usual_rate(OptimizerKind kind);

/// Steps of warm-up unless they are given: a tenth of all before a cosine, otherwise none.
std::uint32_t usual_warmup(const RunConfig& config);

/// The method's options, completed with values that the run knows: its steps, its learning rate, and the smoothness and
/// convexity of its loss. Options that were given are kept.
MethodOptions derived_options(const RunConfig& config, const Workload& workload);
MethodOptions derived_options(const RunConfig& config, const Problem& problem);

/// Local steps between two rounds; 0 if the method has no rounds.
std::uint32_t round_period(const RunConfig& config);

}  // namespace laconic
