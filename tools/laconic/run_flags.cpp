#include "run_flags.h"

#include <algorithm>
#include <map>

#include "experiment/files.h"
#include "laconic/error.h"
#include "methods/table.h"

namespace laconic::tools {
namespace {

bool has_parameter(const std::string& method, const std::string& name) {
  const auto keys = config_keys("method", "linear-regression", method);
  return std::find(keys.begin(), keys.end(), name) != keys.end();
}

bool is_section(const std::string& name) {
  return name == "run" || name == "problem" || name == "method" || name == "optimizer";
}

bool is_method(const std::string& name) {
  return std::any_of(method_table().begin(), method_table().end(), [&](const auto& row) { return row.name == name; });
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

std::string problem_names() { return names_of(problem_table()); }
std::string method_names() { return names_of(method_table()); }

RunFlags::Flag& RunFlags::add_flag(CLI::App& command, const std::string& section, const std::string& key,
                                   const std::string& help, const std::string& group) {
  Flag& flag = flags_.emplace_back(Flag{section, key, "", nullptr});
  flag.option = command.add_option(spelled(key), flag.value, help)->group(group)->option_text("VALUE");
  return flag;
}

void RunFlags::add_to(CLI::App& command) {
  command.add_option("--problem", problem_, "one of " + problem_names())->option_text("NAME");
  command.add_option("--config", config_file_, "a TOML file, or an earlier run's config.json; flags win over it")
      ->option_text("FILE");
  command.add_option("--set", assignments_, "a setting by its name, such as noise=0.1 or problem.noise=0.1")
      ->option_text("NAME=VALUE");
  const std::string run = "Run";
  flags_.push_back({"run", "learning_rate", "", nullptr});
  flags_.back().option =
      command.add_option("--lr,--learning-rate,--learning_rate", flags_.back().value, "default: the problem's")
          ->group(run)
          ->option_text("VALUE");
  add_flag(command, "run", "schedule", "STEP:FACTOR[,STEP:FACTOR...], factors on the learning rate", run);
  add_flag(command, "run", "workers", "ranks; default: the problem's, or mpirun's", run);
  add_flag(command, "run", "steps", "of each worker; default: the problem's", run);
  add_flag(command, "run", "seed", "of data, noise and every draw; default 1", run);
  add_flag(command, "run", "nonfinite", "error | skip: what a NaN in a gradient does; default error", run);
  add_flag(command, "run", "eval_interval", "steps between evaluations; 0: only at the end", run);
  add_flag(command, "run", "adversaries", "workers that invert their gradients; default 0", run);
  add_flag(command, "run", "compute_seconds", "least time of a gradient; default 0", run);
  add_flag(command, "run", "slowdown", "by rank, such as 1,1,1,4: times as long", run);
  add_flag(command, "run", "threads", "of each rank's kernels; default 1", run);

  const std::string optimizer = "Optimizer (of gradient methods and local steps)";
  flags_.push_back({"optimizer", "name", "", nullptr});
  flags_.back().option = command.add_option("--optimizer", flags_.back().value, "sgd | adam; default sgd")
                             ->group(optimizer)
                             ->option_text("NAME");
  add_flag(command, "", "momentum", "default 0; the method's own where it has one", optimizer);
  add_flag(command, "", "weight_decay", "default 0; the method's own where it has one", optimizer);
  add_flag(command, "optimizer", "nesterov", "true | false; default false", optimizer);

  const std::string method = "Method parameters (laconic methods says which method has which)";
  std::map<std::string, std::string> seen{{"momentum", ""}, {"weight_decay", ""}};
  for (const MethodRow& row : method_table()) {
    for (const Parameter& parameter : row.parameters) {
      if (!seen.emplace(parameter.name, parameter.help).second) continue;
      add_flag(command, "method", parameter.name, parameter.range(), method);
    }
  }
}

std::vector<ConfigEntry> RunFlags::file_entries() const {
  return config_file_.empty() ? std::vector<ConfigEntry>() : read_config_file(config_file_);
}

bool RunFlags::given(const std::string& key) const {
  return std::any_of(flags_.begin(), flags_.end(),
                     [&](const Flag& flag) { return flag.key == key && flag.option->count() > 0; });
}

std::string RunFlags::method_in_file() const { return last_value(file_entries(), "method", "name"); }

RunConfig RunFlags::config(const std::string& method, bool shared, int processes) const {
  std::vector<ConfigEntry> entries;
  if (processes > 0) entries.push_back({"run", "workers", std::to_string(processes)});
  for (ConfigEntry& entry : file_entries()) {
    const bool of_method = entry.section == "method";
    if (of_method && entry.key != "name" && shared && !has_parameter(method, entry.key)) continue;
    entries.push_back(std::move(entry));
  }
  if (!problem_.empty()) entries.push_back({"problem", "name", problem_});
  entries.push_back({"method", "name", method});
  const std::string named = last_value(entries, "problem", "name");
  const std::string problem = named.empty() ? RunConfig().problem : named;
  for (const std::string& assignment : assignments_) {
    const std::string head = assignment.substr(0, assignment.find_first_of(".="));
    if (!is_section(head) && is_method(head) && assignment[head.size()] == '.') {
      if (head == method) entries.push_back(entry_from(assignment.substr(head.size() + 1), problem, method));
      continue;
    }
    // Among several methods a parameter goes to those that have it; require_used sees to it that one does.
    const std::string bare = head == "method" ? assignment.substr(assignment.find('.') + 1) : assignment;
    const std::string key = bare.substr(0, bare.find('='));
    const bool foreign = shared && !has_parameter(method, key) &&
                         std::any_of(method_table().begin(), method_table().end(),
                                     [&](const MethodRow& row) { return has_parameter(row.name, key); });
    const auto others = config_keys("problem", problem, method);
    if (foreign && std::find(others.begin(), others.end(), key) == others.end() && head != "optimizer") continue;
    entries.push_back(entry_from(assignment, problem, method));
  }
  for (const Flag& flag : flags_) {
    if (flag.option->count() == 0) continue;
    std::string section = flag.section;
    if (section.empty()) section = has_parameter(method, flag.key) ? "method" : "optimizer";
    if (shared && section == "method" && !has_parameter(method, flag.key)) continue;
    entries.push_back({section, flag.key, flag.value});
  }
  const RunConfig made = config_from(entries);
  if (processes > 0 && made.workers != processes) {
    throw InvalidConfig("workers is " + std::to_string(made.workers) + ", mpirun started " + std::to_string(processes) +
                        " processes: leave --workers out, or start as many");
  }
  return made;
}

void RunFlags::require_used(const std::vector<std::string>& methods) const {
  for (const Flag& flag : flags_) {
    if (flag.section != "method" || flag.option->count() == 0) continue;
    if (std::none_of(methods.begin(), methods.end(), [&](const auto& each) { return has_parameter(each, flag.key); })) {
      throw InvalidConfig("none of the methods has the parameter " + flag.key + ": leave it out");
    }
  }
  for (const std::string& assignment : assignments_) {
    const std::string head = assignment.substr(0, assignment.find('.'));
    if (head.size() == assignment.size() || is_section(head)) continue;
    if (std::find(methods.begin(), methods.end(), head) == methods.end()) {
      throw InvalidConfig("--set " + assignment + ": " + head + " is not among the methods of this run; did you mean " +
                          nearest_name(head, methods) + "?");
    }
  }
}

}  // namespace laconic::tools
