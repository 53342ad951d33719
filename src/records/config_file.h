#pragma once

#include <string>
#include <vector>

#include "experiment/config_text.h"

namespace laconic {

/// Reads a TOML file, or a JSON file such as an earlier run's config.json if the name ends in .json. Keys at the top
/// level are the run's; the tables problem or task, method and optimizer have a `name` and settings, or are just the
/// name. Throws an InvalidConfig that names the file, and in TOML the line, if it does not parse. config_from detects
/// unknown keys.
std::vector<ConfigEntry> read_config_file(const std::string& path);

/// Whether it is a config.json that Laconic wrote. Other programs have files of that name, too.
bool is_config_of_run(const std::string& path);

}  // namespace laconic
