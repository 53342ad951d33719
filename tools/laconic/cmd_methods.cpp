#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "experiment/config_text.h"
#include "json_output.h"
#include "methods/table.h"
#include "text_table.h"

namespace laconic::tools {
namespace {

using Json = nlohmann::ordered_json;

const char* face_name(Face face) { return face == Face::gradient ? "gradient" : "model"; }

/// Where selection or scaling happens unless told otherwise; a method without the choice has none.
std::string scope_of(const MethodRow& row) {
  for (const Parameter& parameter : row.parameters) {
    if (parameter.name == std::string("scope")) {
      return parameter.fallback;
    }
  }
  return "-";
}

std::string default_of(const Parameter& parameter) { return parameter.fallback.empty() ? "-" : parameter.fallback; }

void show_table() {
  std::vector<std::vector<std::string>> methods{{"METHOD", "FACE", "SCOPE", "MEMORY", "WHAT IT DOES", "PAPER"}};
  std::vector<std::vector<std::string>> parameters{{"METHOD", "PARAMETER", "RANGE", "DEFAULT", "WHAT IT IS"}};
  for (const MethodRow& row : method_table()) {
    methods.push_back(
        {row.name, face_name(row.face), scope_of(row), text_of(row.memory_bytes) + " B", row.summary, row.paper});
    const char* name = row.name;  // once a method
    for (const Parameter& parameter : row.parameters) {
      parameters.push_back({name, parameter.name, parameter.range(), default_of(parameter), parameter.help});
      name = "";
    }
  }
  std::cout
      << text_table(methods)
      << "\nMEMORY is bytes a parameter of the model on each rank, without the optimizer's, which psync keeps twice;\n"
      << "def, def-a and ef-rbgs with momentum, 4 B less without.\n\n"
      << text_table(parameters) << "\nDEFAULT -: none, or derived from the run.\n";
}

std::string table_json() {
  Json all = Json::array();
  for (const MethodRow& row : method_table()) {
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
    all.push_back({{"name", row.name},
                   {"face", face_name(row.face)},
                   {"scope", scope_of(row) == "-" ? Json() : Json(scope_of(row))},
                   {"memory_bytes", row.memory_bytes},
                   {"summary", row.summary},
                   {"paper", row.paper},
                   {"extra", row.extra},
                   {"parameters", std::move(parameters)}});
  }
  return all.dump(2) + "\n";
}

}  // namespace

void add_methods(CLI::App& program) {
  CLI::App* command = program.add_subcommand("methods", "The table of methods, with their parameters");
  auto json = std::make_shared<JsonOutput>();
  json->add_to(*command, "the table");
  command->footer(
      "Examples:\n"
      "  laconic methods\n"
      "  laconic methods --json\n"
      "A gradient method turns the workers' gradients into one; a model method also decides where gradients are "
      "taken,\n"
      "or when models meet.");
  command->callback([json] {
    if (!json->on_stdout()) show_table();
    if (json->wanted()) json->write(table_json());
  });
}

}  // namespace laconic::tools
