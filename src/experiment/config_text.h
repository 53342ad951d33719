#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/run.h"
#include "methods/settings.h"  // text_of

// A run's configuration as text: what flags, TOML files and config.json have in common.

namespace laconic {

inline constexpr std::array<std::string_view, 5> kConfigSections{"run", "problem", "task", "method", "optimizer"};

inline bool is_config_section(std::string_view name) {
  return std::find(kConfigSections.begin(), kConfigSections.end(), name) != kConfigSections.end();
}

/// `section` is one of kConfigSections. The key "name" of all but run chooses which one.
struct ConfigEntry {
  std::string section;
  std::string key;
  std::string value;
  std::string where{};  ///< the file and its line that it comes from, if any; a refusal begins with it
};

/// "run.seed".
inline std::string full_name(const ConfigEntry& entry) { return entry.section + "." + entry.key; }

/// A value in a message: "none" for an empty one.
inline std::string or_none(const std::string& value) { return value.empty() ? "none" : value; }

/// Later entries win. Workers, steps and learning rate default to the problem's. InvalidConfig with the nearest key for
/// one that does not exist, and for a value that is no number, naming what it belongs to.
RunConfig config_from(std::span<const ConfigEntry> entries);

/// The whole configuration, defaults filled in; config_from gives the same run again.
std::vector<ConfigEntry> entries_of(const RunConfig& config);

/// "problem.points=200", "method.keep=0.1", "optimizer.momentum=0.9", "run.seed=3"; without a section it is the
/// problem's (or, with no problem, the task's) setting of that name, else the method's parameter, else the optimizer's
/// or the run's own.
ConfigEntry entry_from(std::string_view assignment, std::string_view problem, std::string_view method);

/// The last value given for the key, or empty.
std::string last_value(std::span<const ConfigEntry> entries, std::string_view section, std::string_view key);

/// The keys that a section may have, "name" left out.
std::vector<std::string> config_keys(std::string_view section, std::string_view problem, std::string_view method);

}  // namespace laconic
