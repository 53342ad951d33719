#include "usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>
#include <vector>

#include "base/printable.h"
#include "base/suggestion.h"
#include "data/task.h"
#include "laconic/nonfinite.h"
#include "methods/table.h"
#include "problems/problem.h"
#include "text_table.h"

namespace laconic::tools {
namespace {

constexpr std::size_t kPageWidth = 110;

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    const auto lines = lines_of(CLI::Formatter::make_option_desc(option), kPageWidth - get_column_width());
    return fmt::format("{}", fmt::join(lines, "\n"));
  }
  /// --step-guard, not --step_guard as well.
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    std::istringstream names(CLI::Formatter::make_option_name(option, positional));
    std::string result;
    std::string name;
    while (std::getline(names, name, ',')) {
      if (name.find('_') == std::string::npos) result += (result.empty() ? "" : ",") + name;
    }
    return result;
  }
};

/// The command that the words so far have chosen, and how it is called: "laconic bench kernels".
const CLI::App* chosen(const CLI::App& program, std::string& call) {
  const CLI::App* command = &program;
  call = "laconic";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    call += " " + command->get_name();
  }
  return command;
}

/// Commands as they are written after "laconic", those of commands included.
std::vector<std::string> command_names(const CLI::App& app, const std::string& prefix = "") {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(prefix + each->get_name());
    for (std::string& inner : command_names(*each, names.back() + " ")) names.push_back(std::move(inner));
  }
  return names;
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

bool is_setting_of_a_problem(const std::string& name) {
  for (const ProblemRow& row : problem_table()) {
    for (const ProblemSetting& setting : row.settings) {
      if (setting.name == name) return true;
    }
  }
  return false;
}

bool has_flag(const CLI::App& command, const std::string& flag) {
  const auto flags = flag_names(command);
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

std::string unknown_flag(const CLI::App& command, const std::string& argument, const std::string& next) {
  const std::string flag = argument.substr(0, argument.find('='));
  const std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  const std::string value = argument.size() > flag.size() ? argument.substr(flag.size() + 1) : next;
  if (has_flag(command, "--set") && is_setting_of_a_problem(name)) {
    return "; it is a setting of the problem: --set " + name + "=" + (value.empty() ? "VALUE" : value);
  }
  const std::string nearest = nearest_name(flag, flag_names(command));
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

template <class Rows>
bool has_row(const Rows& rows, const std::string& name) {
  return std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
}

/// A word that no flag stands before.
std::string stray_word(const CLI::App& command, const std::string& word) {
  if (const auto names = command_names(command); !names.empty()) return did_you_mean(word, names);
  const std::string first = word.substr(0, word.find(','));
  const char* flag = has_flag(command, "--methods") ? "--methods" : "--method";
  if (has_flag(command, flag) && has_row(method_table(), first))
    return std::string("; did you mean ") + flag + " " + word + "?";
  if (has_flag(command, "--problem") && has_row(problem_table(), word)) return "; did you mean --problem " + word + "?";
  if (has_flag(command, "--task") && has_row(task_table(), word)) return "; did you mean --task " + word + "?";
  return "; it is neither a flag nor a flag's value";
}

/// A first word that is no command, or flags before the command.
std::string wrong_start(const CLI::App& program, const std::string& argument, const std::string& call) {
  if (argument.starts_with("-")) {
    if (call != "laconic") return argument + " stands before the command; write it behind: " + call + " " + argument;
    return "there is no flag " + argument + " without a command; laconic COMMAND " + argument + ", perhaps?";
  }
  const auto names = command_names(program);
  if (argument == "help") return "there is no command help; did you mean laconic --help?";
  for (const std::string& name : names) {  // "kernels" for "bench kernels"
    if (name.ends_with(" " + argument)) return "there is no command " + argument + "; did you mean " + name + "?";
  }
  return "there is no command " + argument + did_you_mean(argument, names);
}

/// The flag that was given more values than it takes. nullptr: none was.
const CLI::Option* given_too_often(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const bool refuses = option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw;
    if (refuses && static_cast<int>(option->count()) > option->get_items_expected_max()) return option;
  }
  return nullptr;
}

/// Too many values of a flag, or none. A flag takes the next word as its value, so only the last word can lack one.
std::string mismatch_error(const CLI::App& command, const CLI::ArgumentMismatch& error, const std::string& last) {
  if (const CLI::Option* option = given_too_often(command)) return option->get_name() + " is given more than once";
  const std::string flag = last.substr(0, last.find('='));
  const CLI::Option* option = command.get_option_no_throw(flag);
  return option != nullptr && option->get_items_expected_min() > 0 ? flag + " needs a value" : error.what();
}

std::string extras_error(const CLI::App& program) {
  std::string call;
  const CLI::App* command = chosen(program, call);
  const auto own = program.remaining(false);
  if (!own.empty()) return wrong_start(program, own.front(), call);
  const auto extras = program.remaining(true);
  if (extras.empty()) return "one argument too many";
  const std::string& first = extras.front();
  const std::string next = extras.size() > 1 && !extras[1].starts_with("-") ? extras[1] : "";
  return call.substr(call.find(' ') + 1) + " does not know " + first +
         (first.starts_with("-") ? unknown_flag(*command, first, next) : stray_word(*command, first));
}

}  // namespace

CLI::Validator whole_in(std::uint64_t low, std::uint64_t high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        std::uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, value);
        const bool allowed = read.ec == std::errc() && read.ptr == end && value >= low && value <= high;
        return allowed ? std::string()
                       : "must be a whole number in " + std::to_string(low) + ".." + std::to_string(high) + ", got \"" +
                             text + "\"";
      },
      "");
}

CLI::Validator finite_from_zero() {
  return CLI::Validator(
      [](const std::string& text) {
        double value = 0.0;
        const char* end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, value);
        const bool allowed = read.ec == std::errc() && read.ptr == end && value >= 0.0 && std::isfinite(value);
        return allowed ? std::string() : "must be a finite number, 0 or more, got \"" + text + "\"";
      },
      "");
}

void refuse_empty_values(CLI::App& command) {
  const CLI::Validator not_empty(
      [](const std::string& text) {
        return text.empty() ? "must not be empty: give a value, or leave it out" : std::string();
      },
      "");
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_min() > 0) option->check(not_empty);
  }
  for (CLI::App* each : command.get_subcommands([](CLI::App*) { return true; })) refuse_empty_values(*each);
}

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

std::vector<std::string> without_repeats(const std::vector<std::string>& names) {
  std::vector<std::string> once;
  for (const std::string& name : names) {
    if (std::find(once.begin(), once.end(), name) == once.end()) once.push_back(name);
  }
  return once;
}

std::vector<std::string> names_in(const std::string& list, const std::string& flag) {
  std::vector<std::string> names;
  std::istringstream parts(list + ",");
  for (std::string name; std::getline(parts, name, ',');) {
    if (name.empty()) {
      throw InvalidConfig(flag + " has a name missing beside a comma, got " + list + ": write NAME[,NAME...]");
    }
    names.push_back(name);
  }
  return without_repeats(names);
}

std::string usage_error(const CLI::App& program, const CLI::ParseError& error, const std::string& last) {
  std::string call;
  const CLI::App* command = chosen(program, call);
  std::string what = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    what = extras_error(program);
  } else if (const auto* mismatch = dynamic_cast<const CLI::ArgumentMismatch*>(&error)) {
    what = mismatch_error(*command, *mismatch, last);
  }
  return what + " (" + call + " --help shows how it is used)";
}

std::string complaint(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  return "laconic: " + printable(message);  // it may quote files
}

int exit_code(const std::exception& error) {
  const bool wrong = dynamic_cast<const InvalidConfig*>(&error) != nullptr;
  return wrong && dynamic_cast<const NonfiniteValue*>(&error) == nullptr ? kUsage : kFailure;
}

}  // namespace laconic::tools
