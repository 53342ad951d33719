#pragma once

#include <string>

#include "experiment/run.h"

// A run's configuration in its checkpoints, so that a run continues with the settings with which it began.

namespace laconic {

/// Every setting as text, by its name: "run.seed".
State config_state(const RunConfig& config);

/// Throws an InvalidConfig that names the checkpoint, the first setting that differs and both values. Settings that the
/// state lacks are accepted, because an earlier version did not have them. So are settings that may change
/// (RunSetting::may_change).
void require_same_config(const State& saved, const RunConfig& config, const std::string& checkpoint);

}  // namespace laconic
