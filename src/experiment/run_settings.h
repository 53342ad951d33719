#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "experiment/run.h"

// The one table of the settings of runs, tasks and optimizers. A row gives the key in files, the flag and its help, the
// text in records and checkpoints, what ranks compare, and what is refused. Parameters of methods (methods/table.h) and
// settings of problems (problems/problem.h) have tables of their own.

namespace laconic {

/// One setting. Ranks compare all of them before a run starts.
struct RunSetting {
  std::string section;  ///< run | task | optimizer
  std::string name;     ///< the key in files
  std::string range;    ///< "1..1024", "[0, 1]", "error | skip"; empty: any text
  std::string help;
  /// Throws InvalidConfig for a text that is no value.
  std::function<void(RunConfig&, const std::string&)> read{};
  std::function<std::string(const RunConfig&)> text{};
  /// Throws InvalidConfig if the value is not allowed. Empty: all values are.
  std::function<void(const RunConfig&)> require{};
  std::string usual{};       ///< the default in words, where it is not RunConfig's own
  std::string flags{};       ///< as the command line spells it, if not like the name
  std::string flag_value{};  ///< not empty: the flag takes no value and means this one
  /// A resumed run may have another value: it decides neither what is computed nor what is recorded.
  bool may_change = false;

  /// Range, meaning and default: "1..65536: samples per step of each worker; default 16".
  std::string description() const { return description(usual); }
  std::string description(const std::string& usual_here) const;
};

/// In the order of a record: run, task, optimizer.
std::span<const RunSetting> run_settings();

/// Null if there is none.
const RunSetting* find_run_setting(std::string_view section, std::string_view name);

/// Whether the setting means anything in this run: those of a task do only if there is one.
bool counts_in(const RunSetting& setting, const RunConfig& config);

/// Throws InvalidConfig unless the text is a finite number; `name` begins the message.
double number_from(std::string_view name, std::string_view text);

}  // namespace laconic
