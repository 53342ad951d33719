#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "experiment/config_text.h"
#include "json_output.h"
#include "text_table.h"

namespace laconic::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string range_of(const ProblemSetting& setting) {
  const std::string low = text_of(setting.low);
  const std::string high = text_of(setting.high);
  return setting.whole ? low + ".." + high : "[" + low + ", " + high + "]";
}

void show_table() {
  std::vector<std::vector<std::string>> problems{{"PROBLEM", "WORKERS", "STEPS", "LR", "WHAT IT IS", "PAPER"}};
  std::vector<std::vector<std::string>> settings{{"PROBLEM", "SETTING", "RANGE", "DEFAULT", "WHAT IT IS"}};
  for (const ProblemRow& row : problem_table()) {
    problems.push_back({row.name, std::to_string(row.workers), std::to_string(row.steps), text_of(row.learning_rate),
                        row.summary, row.paper});
    const char* name = row.name;
    for (const ProblemSetting& setting : row.settings) {
      settings.push_back({name, setting.name, range_of(setting), text_of(setting.fallback), setting.help});
      name = "";
    }
  }
  std::cout << text_table(problems) << '\n' << text_table(settings);
}

std::string table_json() {
  Json all = Json::array();
  for (const ProblemRow& row : problem_table()) {
    Json settings = Json::array();
    for (const ProblemSetting& setting : row.settings) {
      settings.push_back({{"name", setting.name},
                          {"low", setting.low},
                          {"high", setting.high},
                          {"whole", setting.whole},
                          {"default", setting.fallback},
                          {"help", setting.help}});
    }
    all.push_back({{"name", row.name},
                   {"summary", row.summary},
                   {"paper", row.paper},
                   {"workers", row.workers},
                   {"steps", row.steps},
                   {"learning_rate", row.learning_rate},
                   {"settings", std::move(settings)}});
  }
  return all.dump(2) + "\n";
}

}  // namespace

void add_problems(CLI::App& program) {
  CLI::App* command = program.add_subcommand("problems", "The problems with known gradients, with their settings");
  auto json = std::make_shared<JsonOutput>();
  json->add_to(*command, "the table");
  command->footer(
      "Examples:\n"
      "  laconic problems\n"
      "  laconic train --problem noisy-quadratic --set dimension=1000 --set noise=1 --set noisy=0");
  command->callback([json] {
    if (!json->on_stdout()) show_table();
    if (json->wanted()) json->write(table_json());
  });
}

}  // namespace laconic::tools
