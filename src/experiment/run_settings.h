#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "experiment/run.h"

// The one table of the settings of runs, tasks and optimizers. A row gives the key in files, the flag and its help, the
// text in records and checkpoints, what ranks compare, and which values are rejected. Parameters of methods
// (methods/table.h) and settings of problems (problems/problem.h) have their own tables.

namespace laconic {

/// One setting. Ranks compare all of them before a run starts.
struct RunSetting {
  std::string section;  ///< run | task | optimizer
  std::string name;     ///< the key in files
  std::string range;    ///< "1..1024", "[0, 1]", "error | skip"; empty: any text
  std::string help;
  /// Throws InvalidConfig for a text that is not a value of this setting.
  std::function<void(RunConfig&, const std::string&)> read{};
  std::function<std::string(const RunConfig&)> text{};
  /// Throws InvalidConfig if the value is not allowed. Empty: all values are.
  std::function<void(const RunConfig&)> require{};
  std::string usual{};       ///< the default in words, if it is not RunConfig's own
  std::string flags{};       ///< the flag on the command line, if it differs from the name
  std::string flag_value{};  ///< not empty: the flag takes no value and sets this one
  /// A resumed run may have another value, because the setting affects neither what is computed nor what is recorded.
  bool may_change = false;

  /// Range, meaning and default: "1..65536: samples per step of each worker; default 16".
  std::string description() const { return description(usual); }
  std::string description(const std::string& usual_here) const;
};

/// In the order of a record: run, task, optimizer.
std::span<const RunSetting> run_settings();

/// How the default differs between tasks, as their rows have it: "; on text, tiny-shakespeare cosine", or nothing if
/// the text of every task's default configuration is `common`.
std::string usual_on_tasks(const std::string& common, const std::function<std::string(const RunConfig&)>& text);

/// Null if there is no such setting.
const RunSetting* find_run_setting(std::string_view section, std::string_view name);

/// Whether the setting has a meaning in this run. Settings of a task do only if the run has a task.
bool counts_in(const RunSetting& setting, const RunConfig& config);

/// The number in a text. Throws an InvalidConfig that begins with `name` unless it is finite.
double number_from(std::string_view name, std::string_view text);

}  // namespace laconic
