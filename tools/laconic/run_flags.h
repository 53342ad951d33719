#pragma once

#include <CLI/CLI.hpp>
#include <deque>
#include <string>
#include <vector>

#include "experiment/config_text.h"
#include "experiment/run_settings.h"

namespace laconic::tools {

/// The flags that train and compare share: the problem, the run, and every parameter of every method in the table.
class RunFlags {
 public:
  /// `evaluations` says what the command takes for --eval-interval unless told.
  void add_to(CLI::App& command, const std::string& evaluations);

  /// A method's run: the file first, then --set, then flags, then --set METHOD.name. For one method of several
  /// (`shared`) a parameter or an optimizer that it does not take is left out; `processes` under mpirun are the
  /// workers.
  RunConfig config(const std::string& method, bool shared, int processes) const;

  /// Whether the flag was on the command line.
  bool given(const std::string& key) const;
  /// A flag of a run that was on the command line, such as "--steps"; empty: none was. --data is not counted.
  std::string first_given() const;
  /// --data, or empty.
  const std::string& data_folder() const { return data_folder_; }
  /// What --config names, if it does.
  std::string method_in_file() const;
  /// The method to run if none is named: that of the task.
  std::string usual_method() const;
  /// InvalidConfig if a parameter was given that none of the methods has, or --set names another method.
  void require_used(const std::vector<std::string>& methods) const;

 private:
  /// A flag that was given is an entry.
  struct Flag {
    std::string section;  ///< empty: the method's parameter of that name, else the optimizer's
    std::string key;
    std::string value;
    CLI::Option* option = nullptr;
  };
  void add_flag(CLI::App& command, const std::string& section, const std::string& key, const std::string& help,
                const std::string& group);
  void add_setting(CLI::App& command, const RunSetting& setting, const std::string& usual);
  std::vector<ConfigEntry> file_entries() const;
  void require_known_in_file(const std::vector<std::string>& methods) const;
  void require_task_for_network_flags(bool network) const;
  std::vector<ConfigEntry> assigned(const std::string& problem, const std::string& method, bool shared) const;

  std::deque<Flag> flags_;  ///< CLI11 holds on to the values
  std::string problem_;
  std::string task_;
  std::string data_folder_;
  std::string config_file_;
  std::vector<std::string> assignments_;
};

/// As the command line spells a setting: "--eval-interval,--eval_interval".
std::string flag_names(const RunSetting& setting);

/// "linear-regression, logistic-toy, ...".
std::string problem_names();
std::string task_names();
std::string method_names();

}  // namespace laconic::tools
