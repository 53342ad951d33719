#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands.h"
#include "experiment/config_text.h"
#include "json_output.h"
#include "methods/combinations.h"
#include "methods/table.h"
#include "parameter_help.h"
#include "text_table.h"

namespace laconic::tools {
namespace {

using Json = nlohmann::ordered_json;

const char* face_name(Face face) { return face == Face::gradient ? "gradient" : "model"; }

/// Where selection or scaling happens unless told otherwise; a method without the choice has none.
std::optional<std::string> scope_of(const MethodRow& row) {
  const Parameter* scope = row.find_parameter("scope");
  if (scope == nullptr) return std::nullopt;
  return scope->fallback;
}

/// "8 B", or "8-20 B" where settings or the optimizer make it more.
std::string memory_text(const MemoryBytes& memory) {
  return text_of(memory.usual) + (memory.most > memory.usual ? "-" + text_of(memory.most) : "") + " B";
}

void show_table() {
  std::vector<std::vector<std::string>> methods{
      {"METHOD", "KIND", "SCOPE", "SUITS", "MEMORY", "ON A GPU", "WHAT IT DOES (PAPER)"}};
  std::vector<std::vector<std::string>> parameters{{"METHOD", "PARAMETER", "RANGE", "DEFAULT", "WHAT IT IS"}};
  for (const MethodRow& row : method_table()) {
    methods.push_back({row.name, face_name(row.face), scope_of(row).value_or("-"), suits_name(row.traits.suits),
                       memory_text(row.memory_bytes), text_of(row.device_bytes) + " B",
                       fmt::format("{} ({})", row.summary, row.paper)});
    const char* name = row.name;  // once a method
    for (const Parameter& parameter : row.parameters) {
      parameters.push_back({name, parameter.name, parameter.range(), default_text(parameter), parameter.help});
      name = "";
    }
  }
  std::cout
      << text_table(methods, {}, kLongestLine)
      << "\nKIND: a gradient method combines the workers' gradients into one (laconic.attach in Python); a model method also\n"
      << "decides where gradients are taken, or when models are averaged (laconic.Optimizer).\n"
      << "SCOPE: the entries of one selection, or those that share a norm, by default; -: the method has no such choice.\n"
      << "SUITS: any: for SGD and for AdamW (which-method.md has losses); sgd: for SGD; vote: a vote is an optimizer\n"
      << "itself, so use SGD without momentum, never an Adam-like optimizer.\n"
      << "MEMORY is bytes per parameter of the model on each rank, with default settings and SGD with momentum, and the\n"
      << "most with other settings or another optimizer; laconic methods NAME shows with which. The optimizer's own\n"
      << "memory, messages, scratch and what grows with the entries that are sent come on top. ON A GPU is the same\n"
      << "with messages and scratch, for 8 ranks with default settings.\n\n"
      << text_table(parameters, {}, kLongestLine)
      << "\nDEFAULT -: none, or derived from the run. laconic methods NAME shows one method alone, with an example.\n";
}

/// What a face means, and how a script in Python takes such a method.
std::vector<std::vector<std::string>> face_lines(const MethodRow& row) {
  if (row.face == Face::gradient) {
    return {{"kind", "gradient method: combines the workers' gradients into one"},
            {"python", fmt::format("laconic.attach(ddp, \"{}\")", row.name)}};
  }
  return {{"kind", "model method: decides where gradients are taken, or when models are averaged"},
          {"python", fmt::format("laconic.Optimizer(optimizer, model, method=\"{}\")", row.name)}};
}

void show_page(const MethodRow& row) {
  std::vector<std::vector<std::string>> lines{{"what", row.summary}, {"paper", row.paper}};
  for (auto& line : face_lines(row)) lines.push_back(std::move(line));
  lines.push_back({"suits", suits_text(row.traits.suits)});
  std::string memory = memory_text(row.memory_bytes) + " per parameter of the model on each rank";
  if (*row.memory_bytes.remark != '\0') memory += fmt::format(" ({})", row.memory_bytes.remark);
  lines.push_back({"memory", memory});
  lines.push_back({"on a GPU", text_of(row.device_bytes) + " B with messages and scratch, for 8 ranks"});
  lines.push_back({"example", example_call(row)});
  std::vector<std::vector<std::string>> parameters{{"PARAMETER", "RANGE", "DEFAULT", "WHAT IT IS"}};
  for (const Parameter& each : row.parameters) {
    parameters.push_back({each.name, each.range(), default_text(each), each.help});
  }
  std::cout << row.name << '\n' << text_table(lines, {}, kLongestLine) << '\n';
  std::cout << (row.parameters.empty() ? "It has no parameters.\n" : text_table(parameters, {}, kLongestLine));
}

Json json_of(const MethodRow& row) {
  Json parameters = Json::array();
  for (const Parameter& parameter : row.parameters) {
    Json each{{"name", parameter.name},
              {"kind", parameter.word != nullptr ? "word"
                       : parameter.whole         ? "whole"
                                                 : "number"},
              {"range", parameter.range()},
              {"default", parameter.fallback.empty() ? Json() : Json(parameter.fallback)},
              {"help", parameter.help}};
    if (parameter.word != nullptr) each["choices"] = parameter.choices;
    parameters.push_back(std::move(each));
  }
  const auto scope = scope_of(row);
  return {{"name", row.name},
          {"face", face_name(row.face)},
          {"scope", scope ? Json(*scope) : Json()},
          {"suits", suits_name(row.traits.suits)},
          {"memory_bytes", row.memory_bytes.usual},
          {"most_memory_bytes", row.memory_bytes.most},
          {"memory_remark", row.memory_bytes.remark},
          {"device_memory_bytes", row.device_bytes},
          {"summary", row.summary},
          {"paper", row.paper},
          {"extra", row.extra},
          {"parameters", std::move(parameters)}};
}

/// The methods of those names, or all.
std::vector<const MethodRow*> chosen_rows(const std::vector<std::string>& names) {
  std::vector<const MethodRow*> rows;
  for (const std::string& name : names) rows.push_back(&method_row(name));
  if (names.empty()) {
    for (const MethodRow& row : method_table()) rows.push_back(&row);
  }
  return rows;
}

std::string list_of(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : between).append(word);
  return text;
}

std::string text_of_choices(const std::vector<Choices>& options) {
  std::vector<std::string> each;
  for (const auto& [option, choices] : options) each.push_back(option + " = " + list_of(choices, " | "));
  return list_of(each, ", ");
}

void show_combinations(const Combinations& combinations) {
  std::vector<std::vector<std::string>> offered{{"OPTION", "CHOICES", "METHODS"}};
  for (const OfferedOption& each : combinations.offered) {
    offered.push_back({each.option.first, list_of(each.option.second, " | "), list_of(each.methods, ", ")});
  }
  std::vector<std::vector<std::string>> refused{{"REFUSED TOGETHER", "METHODS", "WHY"}};
  for (const RefusedCombination& each : combinations.refused) {
    refused.push_back({text_of_choices(each.options), list_of(each.methods, ", "), each.reason});
  }
  std::cout << text_table(offered, {}, kLongestLine)
            << "\nWith optimizer sgd, every combination of a method's choices was tried. With optimizer adam, adamw or the\n"
            << "host's own, and in a DDP hook, the defaults and each choice alone were tried. All of these work, except:\n\n"
            << text_table(refused, {}, kLongestLine) << "\n"
            << combinations.tried << " combinations were tried. Where a choice needs numbers (pace = async: total_steps;\n"
            << "rule = convex: kappa, smoothness, convexity, step_size, total_steps), they were given. laconic methods NAME\n"
            << "shows the numbers, their ranges and what some of them need; SUITS in laconic methods shows with which optimizers\n"
            << "a method learns.\n"
            << "A vote with optimizer adam or adamw can be made, but laconic train and the Python package refuse it, because it\n"
            << "learns little.\n";
}

Json json_of(const Combinations& combinations) {
  const auto json_of_option = [](const Choices& option) {
    return Json{{"option", option.first}, {"choices", option.second}};
  };
  Json offered = Json::array();
  for (const OfferedOption& each : combinations.offered) {
    Json one = json_of_option(each.option);
    one["methods"] = each.methods;
    offered.push_back(std::move(one));
  }
  Json refused = Json::array();
  for (const RefusedCombination& each : combinations.refused) {
    Json options = Json::array();
    for (const Choices& option : each.options) options.push_back(json_of_option(option));
    refused.push_back({{"options", std::move(options)}, {"methods", each.methods}, {"reason", each.reason}});
  }
  return {{"offered", std::move(offered)}, {"refused", std::move(refused)}, {"tried", combinations.tried}};
}

struct Arguments {
  std::vector<std::string> names;
  bool combinations = false;
  JsonOutput json;
};

void show(Arguments& arguments) {
  JsonOutput& json = arguments.json;
  const auto require_method = [](const std::string& name) { method_row(name); };
  if (std::string name = json.give_name_back(require_method); !name.empty()) {
    arguments.names.push_back(std::move(name));
  }
  if (arguments.combinations) {
    const Combinations combinations = find_combinations();
    if (!json.on_stdout()) show_combinations(combinations);
    return json.write(json_of(combinations).dump(2) + "\n");
  }
  const auto rows = chosen_rows(arguments.names);
  if (!json.on_stdout() && arguments.names.empty()) show_table();
  if (!json.on_stdout() && !arguments.names.empty()) {
    for (const MethodRow* row : rows) {
      if (row != rows.front()) std::cout << '\n';
      show_page(*row);
    }
  }
  Json all = Json::array();
  for (const MethodRow* row : rows) all.push_back(json_of(*row));
  json.write(all.dump(2) + "\n");
}

}  // namespace

void add_methods(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("methods", "The table of methods with their parameters, or a method's page");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("names", arguments->names, "methods whose pages to show; none: the table of all methods")
      ->option_text("[NAME...]");
  command->add_flag("--combinations", arguments->combinations,
                    "what can be combined with what, found by trying every combination of options");
  arguments->json.add_to(*command, "the rows");
  command->footer(
      "Examples:\n"
      "  laconic methods\n"
      "  laconic methods regtopk\n"
      "  laconic methods --combinations\n"
      "  laconic methods --json\n"
      "A gradient method combines the workers' gradients into one; a model method also decides where gradients are\n"
      "taken, or when models are averaged. A FILE for --json must have a dot or a slash in its name.");
  command->callback([arguments] { show(*arguments); });
}

}  // namespace laconic::tools
