#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/run.h"
#include "methods/settings.h"  // text_of

// A run's configuration as text, which is what flags, TOML files and config.json have in common.

namespace laconic {

inline constexpr std::array<std::string_view, 5> kConfigSections{"run", "problem", "task", "method", "optimizer"};

inline bool is_config_section(std::string_view name) {
  return std::find(kConfigSections.begin(), kConfigSections.end(), name) != kConfigSections.end();
}

/// `section` is one of kConfigSections. In every section except run, the key "name" selects the problem, task, method
/// or optimizer.
struct ConfigEntry {
  std::string section;
  std::string key;
  std::string value;
  std::string where{};  ///< the file and line that it comes from, if any; error messages begin with it
};

/// "run.seed".
inline std::string full_name(const ConfigEntry& entry) { return entry.section + "." + entry.key; }

/// A value in a message: "none" for an empty one.
inline std::string or_none(const std::string& value) { return value.empty() ? "none" : value; }

/// Later entries override earlier ones. Workers, steps and learning rate default to the problem's. Throws an
/// InvalidConfig that suggests the nearest key for an unknown key, and one that names the key for a value that is not a
/// number.
RunConfig config_from(std::span<const ConfigEntry> entries);

/// The whole configuration with defaults filled in. config_from makes the same run from it.
std::vector<ConfigEntry> entries_of(const RunConfig& config);

/// Reads "problem.points=200", "method.keep=0.1", "optimizer.momentum=0.9" or "run.seed=3". Without a section, the name
/// is looked up in this order: settings of the problem (or, without a problem, of the task), parameters of the method,
/// settings of the optimizer or the run.
ConfigEntry entry_from(std::string_view assignment, std::string_view problem, std::string_view method);

/// The last value that was given for the key, or empty.
std::string last_value(std::span<const ConfigEntry> entries, std::string_view section, std::string_view key);

/// The keys that a section may have, except "name".
std::vector<std::string> config_keys(std::string_view section, std::string_view problem, std::string_view method);

}  // namespace laconic
