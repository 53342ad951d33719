#include "experiment/config_text.h"

#include <algorithm>

#include "base/suggestion.h"
#include "experiment/derive.h"
#include "experiment/run_settings.h"
#include "laconic/error.h"
#include "methods/optimizer.h"
#include "methods/table.h"

namespace laconic {
namespace {

[[noreturn]] void refuse_key(std::string_view owner, std::string_view key, const std::vector<std::string>& known) {
  throw InvalidConfig(std::string(owner) + " has no " + std::string(key) +
                      (known.empty() ? std::string(": it has no settings") : did_you_mean(key, known)));
}

bool is_chosen_by_name(std::string_view section) {
  return section == "problem" || section == "task" || section == "method";
}

/// What the table of settings has in the section, "name" left out.
void add_names(std::vector<std::string>& names, std::string_view section) {
  for (const RunSetting& setting : run_settings()) {
    if (setting.section == section && setting.name != "name") names.push_back(setting.name);
  }
}

void read_problem_setting(RunConfig& config, const ConfigEntry& entry) {
  const auto known = config_keys("problem", config.problem, config.method);
  if (std::find(known.begin(), known.end(), entry.key) == known.end()) refuse_key(config.problem, entry.key, known);
  std::erase_if(config.problem_settings, [&](const auto& each) { return each.first == entry.key; });
  config.problem_settings.emplace_back(entry.key, number_from(config.problem + "'s " + entry.key, entry.value));
}

void read_entry(RunConfig& config, const ConfigEntry& entry) {
  if (const RunSetting* setting = find_run_setting(entry.section, entry.key)) return setting->read(config, entry.value);
  if (entry.key == "name" && is_chosen_by_name(entry.section)) return;  // before
  if (entry.section == "problem") return read_problem_setting(config, entry);
  if (entry.section == "method") return set_option(config.options, config.method, entry.key, entry.value);
  std::vector<std::string> known;
  add_names(known, entry.section);
  if (!known.empty()) refuse_key((entry.section == "optimizer" ? "an " : "a ") + entry.section, entry.key, known);
  refuse_key("a configuration", "section " + entry.section, {kConfigSections.begin(), kConfigSections.end()});
}

/// What `body` refuses begins with where the entry stands, if a file gave it.
template <class Body>
void located(const std::string& where, const Body& body) {
  try {
    body();
  } catch (const InvalidConfig& error) {
    if (where.empty()) throw;
    throw InvalidConfig(where + ": " + error.what());
  }
}

/// Where the last value of a key comes from.
std::string where_of(std::span<const ConfigEntry> entries, std::string_view section, std::string_view key) {
  std::string where;
  for (const ConfigEntry& entry : entries) {
    if (entry.section == section && entry.key == key) where = entry.where;
  }
  return where;
}

void require_problem(const std::string& problem) {
  std::vector<std::string> problems;
  for (const ProblemRow& row : problem_table()) problems.emplace_back(row.name);
  if (problem.empty() || std::find(problems.begin(), problems.end(), problem) != problems.end()) return;
  throw InvalidConfig("there is no problem " + problem + did_you_mean(problem, problems) +
                      " (`laconic problems` lists them)");
}

/// A parameter out of its range is found while it is known who gave it.
void require_in_range(const RunConfig& config) {
  const MethodRow& row = method_row(config.method);
  require_ranges(row.name, row.parameters, config.options);
}

/// So is one that changes nothing, once it is known what was given beside it.
void require_used(const RunConfig& config, const ConfigEntry& entry) {
  const MethodRow& row = method_row(config.method);
  if (entry.section == "method") require_counts(row.name, row.parameters, entry.key, config.options);
}

void choose_optimizer(RunConfig& config, const std::string& name) {
  const MethodRow& row = method_row(config.method);
  if (row.fixes_optimizer() && name != row.traits.optimizer) {
    throw InvalidConfig("the method " + config.method + "'s optimizer is " + row.traits.optimizer + ", got " + name +
                        ": leave the optimizer out, or use the method " + kDenseMethod);
  }
  // Momentum and learning rate are still the defaults: a given one is read after this. They suit the default optimizer.
  const OptimizerKind kind = optimizer_kind(name);
  const OptimizerKind usual = optimizer_kind(config.optimizer.name);
  if (!config.task.name.empty() && is_adam(kind) != is_adam(usual)) config.learning_rate = usual_rate(kind);
  if (kind != OptimizerKind::sgd) config.optimizer = {.name = name};
  if (kind == OptimizerKind::sgd && usual != OptimizerKind::sgd) config.optimizer = usual_optimizer(config, name);
}

/// What was not given of the schedule is the task's; a cosine has a warm-up.
void fill_schedule(RunConfig& config, std::span<const ConfigEntry> entries) {
  const auto given = [&](std::string_view key) {
    return std::any_of(entries.begin(), entries.end(), [&](const ConfigEntry& entry) {
      return entry.section == "run" && entry.key == key;
    });
  };
  const std::uint32_t warmup = config.warmup;
  if (!given("schedule") && !config.task.name.empty()) set_default_schedule(config);
  config.warmup = given("warmup") ? warmup : usual_warmup(config);
}

/// A setting that a file gave is refused with its place there.
void require_valid_from(const RunConfig& config, std::span<const ConfigEntry> entries) {
  for (const RunSetting& setting : run_settings()) {
    if (!setting.require || !counts_in(setting, config)) continue;
    located(where_of(entries, setting.section, setting.name), [&] { setting.require(config); });
  }
  Optimizer(optimizer_of(method_row(config.method), config.optimizer));  // throws for settings that do not go together
}

void add_entries(std::vector<ConfigEntry>& entries, const RunConfig& config, std::string_view section) {
  for (const RunSetting& setting : run_settings()) {
    if (setting.section == section) entries.push_back({setting.section, setting.name, setting.text(config)});
  }
}

}  // namespace

void require_valid(const RunConfig& config) { require_valid_from(config, {}); }

std::string last_value(std::span<const ConfigEntry> entries, std::string_view section, std::string_view key) {
  std::string value;
  for (const ConfigEntry& entry : entries) {
    if (entry.section == section && entry.key == key) value = entry.value;
  }
  return value;
}

std::vector<std::string> config_keys(std::string_view section, std::string_view problem, std::string_view method) {
  std::vector<std::string> keys;
  if (section == "problem") {
    for (const ProblemSetting& setting : problem_row(problem).settings) keys.emplace_back(setting.name);
  } else if (section == "method") {
    for (const Parameter& parameter : method_row(method).parameters) keys.emplace_back(parameter.name);
  } else {
    add_names(keys, section);
  }
  return keys;
}

RunConfig config_from(std::span<const ConfigEntry> entries) {
  for (const ConfigEntry& entry : entries) {
    if (entry.key != "name" || !entry.value.empty()) continue;
    located(entry.where, [&] {
      throw InvalidConfig("the name of the " + entry.section + " must not be empty: name one, or leave it out");
    });
  }
  const std::string problem = last_value(entries, "problem", "name");
  const std::string method = last_value(entries, "method", "name");
  located(where_of(entries, "problem", "name"), [&] { require_problem(problem); });
  located(where_of(entries, "method", "name"), [&] { method_row(method.empty() ? RunConfig().method : method); });
  const std::string task = last_value(entries, "task", "name");
  if (!task.empty() && !problem.empty()) {
    throw InvalidConfig("a run is on the task " + task + " or on the problem " + problem + ": name one of them");
  }
  const std::string chosen = method.empty() ? RunConfig().method : method;
  RunConfig config = !task.empty() ? default_task_config(task, chosen)
                                   : default_config(problem.empty() ? RunConfig().problem : problem, chosen);
  const std::string optimizer = last_value(entries, "optimizer", "name");
  if (!optimizer.empty()) {
    located(where_of(entries, "optimizer", "name"), [&] { choose_optimizer(config, optimizer); });
  }
  for (const ConfigEntry& entry : entries) {
    located(entry.where, [&] {
      read_entry(config, entry);
      if (entry.section == "method") require_in_range(config);
    });
  }
  for (const ConfigEntry& entry : entries) located(entry.where, [&] { require_used(config, entry); });
  fill_schedule(config, entries);
  require_valid_from(config, entries);
  return config;
}

std::vector<ConfigEntry> entries_of(const RunConfig& config) {
  std::vector<ConfigEntry> entries;
  add_entries(entries, config, "run");
  if (config.task.name.empty()) {
    entries.push_back({"problem", "name", config.problem});
    const ProblemSettings settings(config.problem, problem_row(config.problem).settings, config.problem_settings);
    for (const auto& [name, value] : settings.all()) entries.push_back({"problem", name, text_of(value)});
  } else {
    entries.push_back({"task", "name", config.task.name});
    add_entries(entries, config, "task");
  }
  entries.push_back({"method", "name", config.method});
  const MethodRow& row = method_row(config.method);
  const Settings options(row.name, row.parameters, config.options);
  for (const auto& [name, value] : options.texts()) entries.push_back({"method", name, value});
  add_entries(entries, config, "optimizer");
  return entries;
}

ConfigEntry entry_from(std::string_view assignment, std::string_view problem, std::string_view method) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw InvalidConfig("--set takes name=value, got \"" + std::string(assignment) + "\"");
  }
  const std::string name(assignment.substr(0, equals));
  const std::string value(assignment.substr(equals + 1));
  if (value.empty()) throw InvalidConfig("--set " + name + "= has no value: give one, or leave it out");
  if (const std::size_t dot = name.find('.'); dot != std::string::npos) {
    return {name.substr(0, dot), name.substr(dot + 1), value};
  }
  std::vector<std::string> known;
  for (const char* section : {problem.empty() ? "task" : "problem", "method", "optimizer", "run"}) {
    for (std::string& key : config_keys(section, problem, method)) {
      if (key == name) return {section, name, value};
      known.push_back(std::move(key));
    }
  }
  refuse_key("a run of " + std::string(method) + " on " + std::string(problem.empty() ? "a task" : problem), name,
             known);
}

}  // namespace laconic
