#pragma once

#include <string>

#include "experiment/run.h"

// A run's configuration in its checkpoints, so that a run goes on with the settings it began with.

namespace laconic {

/// Every setting as text, by its name: "run.seed".
State config_state(const RunConfig& config);

/// InvalidConfig naming the checkpoint, the first setting that differs and both values. A setting that the state does
/// not have is of a version that did not know it, and passes. So do settings that may change (RunSetting::may_change).
void require_same_config(const State& saved, const RunConfig& config, const std::string& checkpoint);

}  // namespace laconic
