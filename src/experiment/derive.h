#pragma once

#include "experiment/run.h"

namespace laconic {

/// Whether ranks go at their own pace and meet in rounds only.
bool is_asynchronous(const RunConfig& config);

/// Whether the method lets its workers hold different models between rounds, so that each may start at a point of its
/// own.
bool models_may_differ(const RunConfig& config);

/// The run's options with what a method asks for and the run knows: the steps of the run, its learning rate, and the
/// smoothness and convexity of what it learns. What was given stays.
MethodOptions derived_options(const RunConfig& config, const Workload& workload);
MethodOptions derived_options(const RunConfig& config, const Problem& problem);

/// Local steps between two rounds; 0 where the method has none.
std::uint32_t round_period(const RunConfig& config);

}  // namespace laconic
