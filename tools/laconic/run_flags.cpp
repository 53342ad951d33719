#include "run_flags.h"

#include <algorithm>
#include <set>

#include "base/suggestion.h"
#include "data/task.h"
#include "laconic/error.h"
#include "methods/optimizer.h"
#include "methods/table.h"
#include "parameter_help.h"
#include "records/config_file.h"

namespace laconic::tools {
namespace {

/// Settings of SGD, which are left out for a method with another optimizer where several methods share them.
bool is_for_sgd(const ConfigEntry& entry) {
  return entry.section == "optimizer" && (entry.key == "name" || entry.key == "momentum" || entry.key == "nesterov");
}

/// An optimizer that several methods share and a vote does not take: the vote keeps its own, which is SGD.
bool is_not_for_votes(const ConfigEntry& entry) {
  if (entry.section != "optimizer" || entry.key != "name") return false;
  try {
    return is_adam(optimizer_kind(entry.value));
  } catch (const InvalidConfig&) {
    return false;  // config_from rejects it, and says where it stands
  }
}

/// Leaves out settings of an optimizer that the method does not have, where several methods share them.
void erase_foreign_optimizer(std::vector<ConfigEntry>& entries, const MethodRow& row) {
  if (row.fixes_optimizer()) std::erase_if(entries, is_for_sgd);
  if (row.traits.suits == Suits::vote) std::erase_if(entries, is_not_for_votes);
}

bool any_has(const std::vector<std::string>& methods, const std::string& name) {
  return std::any_of(methods.begin(), methods.end(),
                     [&](const auto& each) { return method_row(each).has_parameter(name); });
}

/// The method of "METHOD.name=value", or empty.
std::string of_one_method(const std::string& assignment) {
  const std::string name = assignment.substr(0, assignment.find('='));
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos || is_config_section(name.substr(0, dot))) return "";
  return name.substr(0, dot);
}

/// Among several methods, one that knows the parameter: entry_from then finds its section. Else the method itself.
std::string foreign_owner(const std::string& assignment, const std::string& problem, const std::string& method,
                          bool shared) {
  const std::string key = assignment.substr(0, assignment.find('='));
  if (!shared || method_row(method).has_parameter(key)) return method;
  for (const char* section : {problem.empty() ? "task" : "problem", "optimizer", "run"}) {
    const auto keys = config_keys(section, problem, method);
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) return method;
  }
  for (const MethodRow& row : method_table()) {
    if (row.has_parameter(key)) return row.name;
  }
  return method;
}

std::string group_of(const std::string& section) {
  if (section == "task") return "Network (with --task)";
  return section == "run" ? "Run" : "Optimizer (of gradient methods and local steps)";
}

/// Those that have a parameter of that name: "ef-rbgs, def, def-a".
std::string methods_with(const std::string& parameter) {
  std::string names;
  for (const MethodRow& row : method_table()) {
    if (row.has_parameter(parameter)) names.append(names.empty() ? "" : ", ").append(row.name);
  }
  return names;
}

/// "--step-guard", and "--step_guard" as the table writes it.
std::string spelled(const std::string& key) {
  std::string dashed = key;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return dashed == key ? "--" + key : "--" + dashed + ",--" + key;
}

template <class Rows>
std::string names_of(const Rows& rows) {
  std::string text;
  for (const auto& row : rows) text.append(text.empty() ? "" : ", ").append(row.name);
  return text;
}

}  // namespace

std::string flag_names(const RunSetting& setting) {
  return setting.flags.empty() ? spelled(setting.name) : setting.flags;
}

std::string task_names() { return names_of(task_table()); }
std::string problem_names() { return names_of(problem_table()); }
std::string method_names() { return names_of(method_table()); }

void RunFlags::add_flag(CLI::App& command, const std::string& section, const std::string& key,
                        const std::string& help, const std::string& group) {
  Flag& flag = flags_.emplace_back(Flag{section, key, "", nullptr});
  flag.option = command.add_option(spelled(key), flag.value, help)->group(group)->option_text("VALUE");
}

void RunFlags::add_setting(CLI::App& command, const RunSetting& setting, const std::string& usual) {
  const std::string owners = methods_with(setting.name);
  const bool is_shared = setting.section == "optimizer" && !owners.empty();
  Flag& flag = flags_.emplace_back(Flag{is_shared ? "" : setting.section, setting.name, setting.flag_value, nullptr});
  const std::string help = setting.description(usual) + (is_shared ? "; " + owners + " have their own" : "");
  if (setting.flag_value.empty()) {
    flag.option = command.add_option(flag_names(setting), flag.value, help)->option_text("VALUE");
  } else {
    const std::string meaning = setting.name + " = " + setting.flag_value + "; otherwise " + setting.help;
    flag.option = command.add_flag_callback(flag_names(setting), [] {}, meaning);
  }
  flag.option->group(group_of(setting.section));
}

void RunFlags::add_to(CLI::App& command, const std::string& evaluations) {
  command.add_option("--problem", problem_, "one of " + problem_names() + "; default " + RunConfig().problem)
      ->option_text("NAME");
  command.add_option("--task", task_, "train a network on a data set instead of a problem: one of " + task_names())
      ->option_text("NAME");
  command.add_option("--config", config_file_, "a TOML file, or an earlier run's config.json; flags override it")
      ->option_text("FILE");
  command
      .add_option("--set", assignments_,
                  "a setting by its name, such as noise=0.1 or problem.noise=0.1; may be repeated")
      ->option_text("NAME=VALUE");
  const RunSetting* interval = find_run_setting("run", "eval_interval");
  for (const RunSetting& setting : run_settings()) {
    add_setting(command, setting, &setting == interval ? evaluations : setting.usual);
  }
  command.add_option("--data", data_folder_, "folder of the data sets' folders; default: LACONIC_DATA, or data")
      ->group(group_of("task"))
      ->option_text("DIR");
  const std::string method = "Method parameters (laconic methods NAME shows one method's)";
  std::set<std::string> seen;
  for (const MethodRow& row : method_table()) {
    for (const Parameter& parameter : row.parameters) {
      if (find_run_setting("optimizer", parameter.name) != nullptr || !seen.insert(parameter.name).second) continue;
      add_flag(command, "method", parameter.name, parameter_help(parameter.name), method);
    }
  }
}

void RunFlags::require_task_for_network_flags(bool network) const {
  for (const Flag& flag : flags_) {
    if (network || flag.section != "task" || flag.option->count() == 0) continue;
    throw InvalidConfig(flag.option->get_name() + " is about networks: add --task " + task_table().front().name +
                        ", or leave it out");
  }
}

std::string RunFlags::first_given() const {
  if (!problem_.empty()) return "--problem";
  if (!task_.empty()) return "--task";
  if (!config_file_.empty()) return "--config";
  if (!assignments_.empty()) return "--set";
  for (const Flag& flag : flags_) {
    if (flag.option->count() > 0) return flag.option->get_name();
  }
  return "";
}

std::vector<ConfigEntry> RunFlags::file_entries() const {
  return config_file_.empty() ? std::vector<ConfigEntry>() : read_config_file(config_file_);
}

bool RunFlags::given(const std::string& key) const {
  return std::any_of(flags_.begin(), flags_.end(),
                     [&](const Flag& flag) { return flag.key == key && flag.option->count() > 0; });
}

std::string RunFlags::method_in_file() const { return last_value(file_entries(), "method", "name"); }

std::string RunFlags::usual_method() const {
  const std::string in_file = problem_.empty() ? last_value(file_entries(), "task", "name") : "";
  const std::string task = task_.empty() ? in_file : task_;
  return task.empty() ? RunConfig().method : task_row(task).training.method;
}

std::vector<ConfigEntry> RunFlags::assigned(const std::string& problem, const std::string& method, bool shared) const {
  std::vector<ConfigEntry> entries;
  for (const std::string& assignment : assignments_) {
    if (!of_one_method(assignment).empty()) continue;
    const ConfigEntry entry = entry_from(assignment, problem, foreign_owner(assignment, problem, method, shared));
    if (entry.section != "method" || !shared || method_row(method).has_parameter(entry.key)) entries.push_back(entry);
  }
  return entries;
}

RunConfig RunFlags::config(const std::string& method, bool shared, int processes) const {
  std::vector<ConfigEntry> entries;
  if (processes > 0) entries.push_back({"run", "workers", std::to_string(processes)});
  for (ConfigEntry& entry : file_entries()) {
    // A flag that names a problem or a task puts what the file has of the other aside.
    if (entry.section == "task" ? !problem_.empty() : entry.section == "problem" && !task_.empty()) continue;
    const bool of_method = entry.section == "method" && entry.key != "name";
    if (!of_method || !shared || method_row(method).has_parameter(entry.key)) entries.push_back(std::move(entry));
  }
  if (!problem_.empty()) entries.push_back({"problem", "name", problem_});
  if (!task_.empty()) entries.push_back({"task", "name", task_row(task_).name});
  if (last_value(entries, "method", "name") != method) entries.push_back({"method", "name", method});
  if (shared) erase_foreign_optimizer(entries, method_row(method));
  config_from(entries);  // names first, so that a wrong one is told as such
  const std::string named = last_value(entries, "problem", "name");
  const bool network = !last_value(entries, "task", "name").empty();
  require_task_for_network_flags(network);
  const std::string problem = network ? "" : named.empty() ? RunConfig().problem : named;
  for (ConfigEntry& entry : assigned(problem, method, shared)) entries.push_back(std::move(entry));
  for (const Flag& flag : flags_) {
    if (flag.option->count() == 0) continue;
    std::string section = flag.section;
    if (section.empty()) section = method_row(method).has_parameter(flag.key) ? "method" : "optimizer";
    if (shared && section == "method" && !method_row(method).has_parameter(flag.key)) continue;
    entries.push_back({section, flag.key, flag.value});
  }
  if (shared) erase_foreign_optimizer(entries, method_row(method));
  for (const std::string& assignment : assignments_) {  // what is meant for this method alone wins
    if (of_one_method(assignment) != method) continue;
    entries.push_back(entry_from(assignment.substr(method.size() + 1), problem, method));
  }
  RunConfig made = config_from(entries);
  if (processes > 0 && made.workers != processes) {
    throw InvalidConfig("workers is " + std::to_string(made.workers) + ", mpirun started " + std::to_string(processes) +
                        " processes: leave --workers out, or start the same number of processes");
  }
  return made;
}

/// Among several methods a file's parameter goes to those that have it; the file's own method may be none of them.
void RunFlags::require_known_in_file(const std::vector<std::string>& methods) const {
  for (const ConfigEntry& entry : file_entries()) {
    if (entry.section != "method" || entry.key == "name" || any_has(methods, entry.key)) continue;
    const std::string own = method_in_file();
    if (!own.empty() && method_row(own).has_parameter(entry.key)) continue;
    throw InvalidConfig(entry.where + ": none of the methods has the parameter " + entry.key +
                        did_you_mean(entry.key, config_keys("method", RunConfig().problem, methods.front())));
  }
}

void RunFlags::require_used(const std::vector<std::string>& methods) const {
  const auto require_parameter = [&](const std::string& key) {
    if (any_has(methods, key)) return;
    const std::string who = methods.size() == 1 ? methods.front() + " has no" : "none of the methods has the";
    throw InvalidConfig(who + " parameter " + key + ": leave it out, or see `laconic methods`");
  };
  for (const Flag& flag : flags_) {
    if (flag.section == "method" && flag.option->count() > 0) require_parameter(flag.key);
  }
  require_known_in_file(methods);
  for (const std::string& assignment : assignments_) {
    const std::string head = of_one_method(assignment);
    if (!head.empty() && std::find(methods.begin(), methods.end(), head) == methods.end()) {
      throw InvalidConfig("--set " + assignment + ": " + head + " is not among the methods of this run" +
                          did_you_mean(head, methods));
    }
    const std::string name = assignment.substr(0, assignment.find('='));
    if (name.starts_with("method.")) require_parameter(name.substr(7));
    const std::string owner = foreign_owner(
        assignment, !task_.empty() || !problem_.empty() ? problem_ : RunConfig().problem, methods.front(), true);
    if (head.empty() && owner != methods.front()) require_parameter(name);
  }
}

}  // namespace laconic::tools
