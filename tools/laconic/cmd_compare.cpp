#include <fmt/format.h>
#include <algorithm>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/progress.h"
#include "commands.h"
#include "laconic/error.h"
#include "methods/table.h"
#include "output_file.h"
#include "run_flags.h"
#include "runner.h"
#include "text_table.h"

namespace laconic::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  RunFlags flags;
  std::vector<std::string> methods;
  std::string json;
};

/// One method's run, or why there is none.
struct Row {
  std::string method;
  RunResult result;
  std::string error;

  double steps() const {
    double sum = 0.0;
    for (const std::uint32_t each : result.steps_by_rank) sum += each;
    return std::max(1.0, sum);
  }
  double own_steps() const { return std::max(1.0, static_cast<double>(result.steps)); }
  double payload() const { return static_cast<double>(result.traffic.payload_bytes) / own_steps(); }
  double sent() const { return static_cast<double>(result.total_sent_bytes) / steps(); }
  double seconds() const { return result.step_seconds / own_steps(); }
};

std::vector<std::string> chosen_methods(const Arguments& arguments) {
  std::vector<std::string> names;
  for (const std::string& name : arguments.methods) names.emplace_back(method_row(name).name);
  if (names.empty()) {
    for (const MethodRow& row : method_table()) names.emplace_back(row.name);
  }
  return names;
}

std::string table_of(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> cells{
      {"METHOD", "LOSS", "DISTANCE", "PAYLOAD/STEP", "SENT/STEP", "SENT IN ALL", "STEP", "ROUNDS"}};
  for (const Row& row : rows) {
    if (!row.error.empty()) {
      cells.push_back({row.method, "failed"});
      continue;
    }
    const auto& distance = row.result.distance;
    cells.push_back({row.method, fmt::format("{:.6e}", row.result.loss),
                     distance ? fmt::format("{:.4e}", *distance) : "-", bytes_text(row.payload()),
                     bytes_text(row.sent()), bytes_text(static_cast<double>(row.result.total_sent_bytes)),
                     seconds_text(row.seconds()), std::to_string(row.result.rounds)});
  }
  std::string text = text_table(cells, {false, true, true, true, true, true, true, true});
  for (const Row& row : rows) {
    if (!row.error.empty()) text += fmt::format("{} failed: {}\n", row.method, row.error);
  }
  return text;
}

Json number(const std::optional<double>& value) { return value && std::isfinite(*value) ? Json(*value) : Json(); }

std::string json_of(const std::vector<Row>& rows) {
  Json all = Json::array();
  for (const Row& row : rows) {
    Json each{{"method", row.method}};
    const bool ran = row.error.empty();
    each["loss"] = ran ? number(row.result.loss) : Json();
    each["distance"] = ran ? number(row.result.distance) : Json();
    each["payload_bytes_per_step"] = ran ? Json(row.payload()) : Json();
    each["sent_bytes_per_step"] = ran ? Json(row.sent()) : Json();
    each["total_sent_bytes"] = ran ? Json(row.result.total_sent_bytes) : Json();
    each["step_seconds"] = ran ? Json(row.seconds()) : Json();
    each["rounds"] = ran ? Json(row.result.rounds) : Json();
    if (!ran) each["error"] = row.error;
    all.push_back(std::move(each));
  }
  return all.dump(2) + "\n";
}

void compare(const Arguments& arguments, Runner& runner) {
  const auto names = chosen_methods(arguments);
  arguments.flags.require_used(names);
  // A wrong setting is found before the first run, not after the others.
  std::vector<RunConfig> configs;
  for (const std::string& name : names) {
    configs.push_back(arguments.flags.config(name, true, runner.processes()));
    if (!arguments.flags.given("eval_interval")) configs.back().eval_interval = 0;
  }
  if (runner.speaks()) require_writable(arguments.json);
  const RunConfig& first = configs.front();
  const auto problem = make_problem(first.problem, first.problem_settings, first.workers, first.seed);
  const bench::Progress progress(runner.speaks());
  std::vector<Row> rows;
  for (const RunConfig& config : configs) {
    progress.say(fmt::format("{} ({} of {})", config.method, rows.size() + 1, configs.size()));
    Row row{config.method, {}, ""};
    Observer silent;
    try {
      row.result = runner.run(config, *problem, silent);
    } catch (const InvalidConfig& error) {
      row.error = error.what();  // it diverged, or it cannot be run like that: the others may
    }
    rows.push_back(std::move(row));
  }
  progress.clear();
  if (!runner.speaks()) return;
  std::cout << fmt::format("{}, {} workers, {} steps, seed {}\n\n", first.problem, first.workers, first.steps,
                           first.seed)
            << table_of(rows)
            << "\nPAYLOAD: rank 0's encoded message; SENT: handed to other ranks, mean of all. Same data and seed for "
               "all.\n";
  write_file(arguments.json, json_of(rows));
  if (std::all_of(rows.begin(), rows.end(), [](const Row& row) { return !row.error.empty(); })) {
    throw Error("no method could be run; the first said: " + rows.front().error);
  }
}

}  // namespace

void add_compare(CLI::App& program) {
  CLI::App* command = program.add_subcommand("compare", "Runs several methods on one problem, one table");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--methods", arguments->methods, "some of " + method_names() + "; default: all")
      ->delimiter(',')
      ->option_text("NAME[,NAME...]");
  arguments->flags.add_to(*command);
  command->add_option("--json", arguments->json, "write the rows to FILE as well")->option_text("FILE");
  command->footer(
      "Examples:\n"
      "  laconic compare --problem linear-regression --methods sgd,topk,regtopk --keep 0.6\n"
      "  laconic compare --problem logistic-regression --steps 200 --json rows.json\n"
      "  laconic compare --methods sgd,signsgd --problem noisy-quadratic --set signsgd.learning_rate=0.01\n"
      "A parameter goes to the methods that have it; --set METHOD.NAME=VALUE to one of them alone.");
  command->callback([arguments] { with_runner([&](Runner& runner) { compare(*arguments, runner); }); });
}

}  // namespace laconic::tools
