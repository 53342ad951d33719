#include "experiment/config_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/suggestion.h"
#include "experiment/invalid_setting.h"
#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/optimizer.h"
#include "methods/table.h"

namespace laconic {
namespace {

[[noreturn]] void refuse_number(std::string_view key, std::string_view text, std::string_view kind) {
  throw InvalidConfig(std::string(key) + " must be " + std::string(kind) + ", got \"" + std::string(text) + "\"");
}

template <class Number>
Number number_from(std::string_view key, std::string_view text, std::string_view kind) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  refuse_number(key, text, kind);
}

double real(std::string_view key, std::string_view text) {
  const char* kind = "a finite number, such as 0.01";
  const double value = number_from<double>(key, text, kind);
  if (!std::isfinite(value)) refuse_number(key, text, kind);
  return value;
}
std::uint32_t whole(std::string_view key, std::string_view text) {
  return number_from<std::uint32_t>(key, text, "a whole number in 0..4294967295");
}

bool truth(std::string_view key, std::string_view text) {
  if (text == "true" || text == "1" || text == "on") return true;
  if (text == "false" || text == "0" || text == "off") return false;
  throw InvalidConfig(std::string(key) + " must be true or false, got \"" + std::string(text) + "\"");
}

/// Empty, as files have it, or the word for it, which stands in a command.
bool is_none(std::string_view text) { return text.empty() || text == "none"; }

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::vector<LearningRateDrop> schedule_from(std::string_view text) {
  std::vector<LearningRateDrop> schedule;
  if (is_none(text)) return schedule;
  for (const std::string& part : split(text, ',')) {
    const auto halves = split(part, ':');
    if (halves.size() != 2) {
      throw InvalidConfig("schedule must be STEP:FACTOR[,STEP:FACTOR...], such as 100:0.1,150:0.1, or none, got \"" +
                          std::string(text) + "\"");
    }
    schedule.push_back({whole("a schedule's step", halves[0]), real("a schedule's factor", halves[1])});
  }
  return schedule;
}

NonfinitePolicy policy_from(std::string_view text) {
  if (text == "error") return NonfinitePolicy::error;
  if (text == "skip") return NonfinitePolicy::skip;
  throw InvalidConfig("nonfinite must be error or skip, got \"" + std::string(text) + "\"");
}

std::string schedule_text(const RunConfig& config) {
  std::string text;
  for (const auto& drop : config.schedule) {
    text.append(text.empty() ? "" : ",").append(std::to_string(drop.step)).append(":").append(text_of(drop.factor));
  }
  return text;
}

std::string slowdown_text(const RunConfig& config) {
  std::string text;
  for (const double times : config.slowdown) text.append(text.empty() ? "" : ",").append(text_of(times));
  return text;
}

/// One key of a section that is a plain part of RunConfig: how it is read and how it is told.
struct Key {
  const char* name;
  void (*read)(RunConfig&, const std::string& text);
  std::string (*tell)(const RunConfig&);
};

// clang-format off
const std::vector<Key>& run_keys() {
  using C = RunConfig;
  using T = const std::string&;
  static const std::vector<Key> keys{
      {"workers", [](C& c, T t) { c.workers = number_from<int>("workers", t, "a whole number in 1.." + std::to_string(kMostRanks) + ", such as 4"); }, [](const C& c) { return std::to_string(c.workers); }},
      {"steps", [](C& c, T t) { c.steps = whole("steps", t); }, [](const C& c) { return std::to_string(c.steps); }},
      {"seed", [](C& c, T t) { c.seed = number_from<std::uint64_t>("seed", t, "a whole number in 0..18446744073709551615"); }, [](const C& c) { return std::to_string(c.seed); }},
      {"learning_rate", [](C& c, T t) { c.learning_rate = real("learning_rate", t); }, [](const C& c) { return text_of(c.learning_rate); }},
      {"schedule", [](C& c, T t) { c.schedule = schedule_from(t); }, schedule_text},
      {"nonfinite", [](C& c, T t) { c.nonfinite = policy_from(t); }, [](const C& c) { return std::string(c.nonfinite == NonfinitePolicy::skip ? "skip" : "error"); }},
      {"eval_interval", [](C& c, T t) { c.eval_interval = whole("eval_interval", t); }, [](const C& c) { return std::to_string(c.eval_interval); }},
      {"adversaries", [](C& c, T t) { c.adversaries = number_from<int>("adversaries", t, "a whole number from 0 to the number of workers"); }, [](const C& c) { return std::to_string(c.adversaries); }},
      {"compute_seconds", [](C& c, T t) { c.compute_seconds = real("compute_seconds", t); }, [](const C& c) { return text_of(c.compute_seconds); }},
      {"slowdown", [](C& c, T t) { c.slowdown.clear(); for (const auto& part : split(is_none(t) ? "" : t, ',')) c.slowdown.push_back(real("slowdown", part)); }, slowdown_text},
      {"overlap", [](C& c, T t) { c.overlap = truth("overlap", t); }, [](const C& c) { return std::string(c.overlap ? "true" : "false"); }},
      {"checkpoint_interval", [](C& c, T t) { c.checkpoint_interval = whole("checkpoint_interval", t); }, [](const C& c) { return std::to_string(c.checkpoint_interval); }},
      {"timeout", [](C& c, T t) { c.timeout = real("timeout", t); }, [](const C& c) { return text_of(c.timeout); }},
      {"threads", [](C& c, T t) { c.threads = number_from<int>("threads", t, "a whole number in 0..1024; 0 is one a core"); }, [](const C& c) { return std::to_string(c.threads); }},
  };
  return keys;
}

const std::vector<Key>& task_keys() {
  using C = RunConfig;
  using T = const std::string&;
  static const std::vector<Key> keys{
      {"model", [](C& c, T t) { c.task.model = t; }, [](const C& c) { return c.task.model; }},
      {"batch", [](C& c, T t) { c.task.batch = whole("batch", t); }, [](const C& c) { return std::to_string(c.task.batch); }},
      {"sampling", [](C& c, T t) { c.task.sampling = t; }, [](const C& c) { return c.task.sampling; }},
      {"skew", [](C& c, T t) { c.task.skew = real("skew", t); }, [](const C& c) { return text_of(c.task.skew); }},
      {"augment", [](C& c, T t) { c.task.augment = truth("augment", t); }, [](const C& c) { return std::string(c.task.augment ? "true" : "false"); }},
      {"train_samples", [](C& c, T t) { c.task.train_samples = whole("train_samples", t); }, [](const C& c) { return std::to_string(c.task.train_samples); }},
      {"test_samples", [](C& c, T t) { c.task.test_samples = whole("test_samples", t); }, [](const C& c) { return std::to_string(c.task.test_samples); }},
      {"scoring_batch", [](C& c, T t) { c.task.scoring_batch = whole("scoring_batch", t); }, [](const C& c) { return std::to_string(c.task.scoring_batch); }},
      {"torch_threads", [](C& c, T t) { c.task.torch_threads = number_from<int>("torch_threads", t, "a whole number"); }, [](const C& c) { return std::to_string(c.task.torch_threads); }},
      {"device", [](C& c, T t) { c.task.device = t; }, [](const C& c) { return c.task.device; }},
  };
  return keys;
}

const std::vector<Key>& optimizer_keys() {
  using C = RunConfig;
  using T = const std::string&;
  static const std::vector<Key> keys{
      {"momentum", [](C& c, T t) { c.optimizer.momentum = real("momentum", t); }, [](const C& c) { return text_of(c.optimizer.momentum); }},
      {"nesterov", [](C& c, T t) { c.optimizer.nesterov = truth("nesterov", t); }, [](const C& c) { return std::string(c.optimizer.nesterov ? "true" : "false"); }},
      {"weight_decay", [](C& c, T t) { c.optimizer.weight_decay = real("weight_decay", t); }, [](const C& c) { return text_of(c.optimizer.weight_decay); }},
      {"beta1", [](C& c, T t) { c.optimizer.beta1 = real("beta1", t); }, [](const C& c) { return text_of(c.optimizer.beta1); }},
      {"beta2", [](C& c, T t) { c.optimizer.beta2 = real("beta2", t); }, [](const C& c) { return text_of(c.optimizer.beta2); }},
      {"epsilon", [](C& c, T t) { c.optimizer.epsilon = real("epsilon", t); }, [](const C& c) { return text_of(c.optimizer.epsilon); }},
  };
  return keys;
}
// clang-format on

[[noreturn]] void refuse_key(std::string_view owner, std::string_view key, const std::vector<std::string>& known) {
  throw InvalidConfig(std::string(owner) + " has no " + std::string(key) +
                      (known.empty() ? std::string(": it has no settings") : did_you_mean(key, known)));
}

void read_plain(RunConfig& config, const std::vector<Key>& keys, const ConfigEntry& entry) {
  for (const Key& key : keys) {
    if (key.name == entry.key) return key.read(config, entry.value);
  }
  std::vector<std::string> known;
  for (const Key& key : keys) known.emplace_back(key.name);
  refuse_key(entry.section == "run" ? "a run" : entry.section == "task" ? "a task" : "an optimizer", entry.key, known);
}

void read_entry(RunConfig& config, const ConfigEntry& entry) {
  if (entry.section == "run") return read_plain(config, run_keys(), entry);
  if (entry.section == "optimizer") {
    if (entry.key == "name") {
      config.optimizer.name = entry.value;
      return;
    }
    return read_plain(config, optimizer_keys(), entry);
  }
  if (entry.key == "name") return;  // chosen before
  if (entry.section == "task") return read_plain(config, task_keys(), entry);
  if (entry.section == "method") return set_option(config.options, config.method, entry.key, entry.value);
  if (entry.section != "problem") {
    const std::vector<std::string> sections{"run", "problem", "task", "method", "optimizer"};
    refuse_key("a configuration", "section " + entry.section, sections);
  }
  const auto known = config_keys("problem", config.problem, config.method);
  if (std::find(known.begin(), known.end(), entry.key) == known.end()) refuse_key(config.problem, entry.key, known);
  std::erase_if(config.problem_settings, [&](const auto& each) { return each.first == entry.key; });
  config.problem_settings.emplace_back(entry.key, real(config.problem + "'s " + entry.key, entry.value));
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
                      " (`laconic problems` says what they are)");
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

/// As require_valid. If a file gave the setting that is refused, the message begins with where it stands there.
void require_valid_from(const RunConfig& config, std::span<const ConfigEntry> entries) {
  try {
    require_valid(config);
  } catch (const InvalidSetting& error) {
    const std::string where = where_of(entries, error.section(), error.key());
    if (where.empty()) throw;
    throw InvalidConfig(where + ": " + error.what());
  }
}

}  // namespace

std::string last_value(std::span<const ConfigEntry> entries, std::string_view section, std::string_view key) {
  std::string value;
  for (const ConfigEntry& entry : entries) {
    if (entry.section == section && entry.key == key) value = entry.value;
  }
  return value;
}

std::vector<std::string> config_keys(std::string_view section, std::string_view problem, std::string_view method) {
  std::vector<std::string> keys;
  if (section == "task") {
    for (const Key& key : task_keys()) keys.emplace_back(key.name);
  } else if (section == "problem") {
    for (const ProblemSetting& setting : problem_row(problem).settings) keys.emplace_back(setting.name);
  } else if (section == "method") {
    for (const Parameter& parameter : method_row(method).parameters) keys.emplace_back(parameter.name);
  } else {
    for (const Key& key : section == "run" ? run_keys() : optimizer_keys()) keys.emplace_back(key.name);
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
  if (config.method == "adam" && !optimizer.empty() && optimizer != "adam") {
    throw InvalidConfig("the method adam's optimizer is adam, got " + optimizer +
                        ": leave the optimizer out, or use the method sgd");
  }
  // A task's momentum is for SGD, and not given by anybody.
  if (config.method == "adam" || optimizer == "adam") config.optimizer = {.name = "adam"};
  for (const ConfigEntry& entry : entries) {
    located(entry.where, [&] {
      read_entry(config, entry);
      if (entry.section == "method") require_in_range(config);
    });
  }
  for (const ConfigEntry& entry : entries) located(entry.where, [&] { require_used(config, entry); });
  const bool scheduled = std::any_of(entries.begin(), entries.end(), [](const ConfigEntry& entry) {
    return entry.section == "run" && entry.key == "schedule";
  });
  if (!task.empty() && !scheduled) config.schedule = default_task_schedule(config.steps);
  require_valid_from(config, entries);
  return config;
}

std::vector<ConfigEntry> entries_of(const RunConfig& config) {
  std::vector<ConfigEntry> entries;
  for (const Key& key : run_keys()) entries.push_back({"run", key.name, key.tell(config)});
  if (config.task.name.empty()) {
    entries.push_back({"problem", "name", config.problem});
    const ProblemSettings settings(config.problem, problem_row(config.problem).settings, config.problem_settings);
    for (const auto& [name, value] : settings.all()) entries.push_back({"problem", name, text_of(value)});
  } else {
    entries.push_back({"task", "name", config.task.name});
    for (const Key& key : task_keys()) entries.push_back({"task", key.name, key.tell(config)});
  }
  entries.push_back({"method", "name", config.method});
  const MethodRow& row = method_row(config.method);
  const Settings options(row.name, row.parameters, config.options);
  for (const auto& [name, value] : options.texts()) entries.push_back({"method", name, value});
  entries.push_back({"optimizer", "name", optimizer_of(config.method, config.optimizer).name});
  for (const Key& key : optimizer_keys()) entries.push_back({"optimizer", key.name, key.tell(config)});
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
