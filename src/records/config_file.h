#pragma once

#include <string>
#include <vector>

#include "experiment/config_text.h"

namespace laconic {

/// A TOML file, or JSON, such as an earlier run's config.json, where the name ends in .json. Keys at the top are the
/// run's; the tables problem or task, method and optimizer have a `name` and settings, or are just the name.
/// InvalidConfig naming the file, and in TOML the line, where it does not parse; unknown keys are found by config_from.
std::vector<ConfigEntry> read_config_file(const std::string& path);

/// Whether it is a config.json that Laconic wrote: other programs have files of that name, too.
bool is_config_of_run(const std::string& path);

}  // namespace laconic
