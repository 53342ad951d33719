#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <deque>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "bench/progress.h"
#include "commands.h"
#include "experiment/figures.h"
#include "json_output.h"
#include "laconic/error.h"
#include "methods/table.h"
#include "metric_text.h"
#include "records/json_record.h"
#include "records/writer.h"
#include "run_flags.h"
#include "runner.h"
#include "text_table.h"
#include "usage.h"
#include "workloads.h"

namespace laconic::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  RunFlags flags;
  std::string methods;  ///< names between commas; empty: all
  std::string out;
  bool overwrite = false;
  JsonOutput json;
};

/// One method's run, or why there is none.
struct Row {
  std::string method;
  RunResult result{};
  double learning_rate = 0.0;
  RankFigures figures{};
  std::string error{};
};

std::vector<std::string> chosen_methods(const Arguments& arguments) {
  std::vector<std::string> names;
  if (arguments.methods.empty()) {
    for (const MethodRow& row : method_table()) names.emplace_back(row.name);
    return names;
  }
  names = names_in(arguments.methods, "--methods");
  for (const std::string& name : names) method_row(name);  // refuses a name that is unknown
  return names;
}

/// "@1G" for a link of 1 Gbit/s.
std::string link_column(const Link& link) {
  return link.bits_per_second < 1e9 ? fmt::format("@{:.0f}M", link.bits_per_second / 1e6)
                                    : fmt::format("@{:.0f}G", link.bits_per_second / 1e9);
}

/// The heading of the figure beside the loss, which is the same for all methods that ran.
std::string metric_heading(const std::vector<Row>& rows) {
  const auto ran = std::find_if(rows.begin(), rows.end(), [](const Row& row) { return row.error.empty(); });
  std::string name = metric_text(ran != rows.end() ? ran->result : RunResult()).name;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return std::toupper(letter); });
  return name;
}

/// Seconds are rank 0's, which may have made no step: in an asynchronous run the others can use up all steps.
bool is_timed(const Row& row) { return row.error.empty() && row.result.steps > 0; }

std::string table_of(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> cells{{"METHOD", "LOSS", metric_heading(rows), "PAYLOAD/STEP", "SENT/STEP",
                                               "SENT TOTAL", "STEP", "ROUNDS"}};
  for (const Link& link : forecast_links()) cells[0].push_back(link_column(link));
  for (const Row& row : rows) {
    if (!row.error.empty()) {
      cells.push_back({row.method, "failed"});
      continue;
    }
    const RankFigures& figures = row.figures;
    const auto per_step = [&](double seconds) { return is_timed(row) ? seconds_text(seconds) : std::string("-"); };
    cells.push_back({row.method, fmt::format("{:.6e}", row.result.loss), metric_text(row.result).value,
                     bytes_text(figures.payload_bytes_per_step), bytes_text(figures.sent_bytes_per_step),
                     bytes_text(static_cast<double>(figures.total_sent_bytes)), per_step(figures.step_seconds),
                     std::to_string(row.result.rounds)});
    for (const Link& link : forecast_links()) {
      cells.back().push_back(per_step(forecast_step_seconds(figures.step_cost(), link)));
    }
  }
  std::vector<bool> right(cells[0].size(), true);
  right[0] = false;
  std::string text = text_table(cells, right);
  for (const Row& row : rows) {
    if (!row.error.empty()) text += fmt::format("{} failed: {}\n", row.method, printable(row.error));
  }
  return text;
}

std::string legend() {
  return fmt::format(
      "\nPAYLOAD: bytes of one rank's encoded message per step. SENT: bytes that one rank sends to the others. Both are the\n"
      "largest over ranks. STEP: measured on this machine. @100M to @100G: forecast, not measured, of a step on links of\n"
      "100 Mbit/s to 100 Gbit/s = compute time + {:.0f} us per message + bytes sent / bandwidth. All methods have the same\n"
      "data and seed.\n",
      kMessageSeconds * 1e6);
}

Json json_of(const Row& row) {
  const bool ran = row.error.empty();
  const RankFigures& figures = row.figures;
  Json json{{"method", row.method}, {"learning_rate", row.learning_rate}};
  const auto put = [&](const char* key, const Json& value) { json[key] = ran ? value : Json(); };
  put("accuracy", json_number(row.result.accuracy));
  put("perplexity", json_number(row.result.perplexity));
  put("loss", json_number(row.result.loss));
  put("distance", json_number(row.result.distance));
  put("payload_bytes_per_step", figures.payload_bytes_per_step);
  put("sent_bytes_per_step", figures.sent_bytes_per_step);
  put("sent_messages_per_step", figures.sent_messages_per_step);
  put("total_sent_bytes", figures.total_sent_bytes);
  json["step_seconds"] = is_timed(row) ? Json(figures.step_seconds) : Json();
  json["compute_seconds"] = is_timed(row) ? Json(figures.compute_seconds) : Json();
  put("rounds", row.result.rounds);
  Json forecast = Json::object();
  for (const Link& link : forecast_links()) {
    forecast[link.name] = is_timed(row) ? Json(forecast_step_seconds(figures.step_cost(), link)) : Json();
  }
  json["forecast_step_seconds"] = std::move(forecast);
  if (!ran) json["error"] = row.error;
  return json;
}

std::string json_of(const std::vector<Row>& rows) {
  Json all = Json::array();
  for (const Row& row : rows) all.push_back(json_of(row));
  return all.dump(2) + "\n";
}

/// What a method came to, in a line of its own where nobody sees the one that is written over.
void tell_end(const Row& row, const std::string& title, double seconds) {
  if (isatty(STDERR_FILENO) != 0) return;
  const std::string end = !row.error.empty()    ? "failed"
                          : row.result.accuracy ? "accuracy " + percent_text(*row.result.accuracy)
                                                : fmt::format("loss {:.6e}", row.result.loss);
  std::cerr << fmt::format("{}: {}, {}\n", title, end, seconds_text(seconds));
}

/// On a terminal the method and its step in a line that is written over; metrics where they are kept.
class Watcher final : public Observer {
 public:
  Watcher(const bench::Progress& progress, std::string title, std::uint32_t steps, RunFolder& folder)
      : progress_(progress), title_(std::move(title)), steps_(steps), folder_(folder) {
    progress_.say(title_);
  }

  void on_start(std::uint32_t steps) override { folder_.on_start(steps); }
  void on_step(const StepRecord& record) override {
    folder_.on_step(record);
    const auto now = Clock::now();
    if (now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    const std::string loss = fmt::format("{:.4g}", record.loss.value_or(record.batch_loss));
    progress_.say(fmt::format("{}: step {} of {}, loss {}", title_, record.step, steps_, loss));
  }

 private:
  using Clock = std::chrono::steady_clock;
  const bench::Progress& progress_;
  std::string title_;
  std::uint32_t steps_;
  RunFolder& folder_;
  Clock::time_point shown_ = Clock::now();
};

/// Every method's configuration, so that a wrong setting is found before the first run, not after the others.
std::vector<RunConfig> configs_of(const Arguments& arguments, int processes) {
  const auto names = chosen_methods(arguments);
  arguments.flags.require_used(names);
  std::vector<RunConfig> configs;
  for (const std::string& name : names) {
    configs.push_back(arguments.flags.config(name, true, processes));
    require_place_for_checkpoints(configs.back(), arguments.out);
    if (arguments.flags.given("eval_interval")) continue;
    // Kept runs have a curve of fifty points; of twenty and at most one in twenty steps where each is a pass over a
    // test set, which takes as long as some steps. The table alone needs the end.
    RunConfig& config = configs.back();
    const std::uint32_t interval =
        config.task.name.empty() ? std::max(1U, config.steps / 50) : std::max(20U, config.steps / 20);
    config.eval_interval = arguments.out.empty() ? 0 : interval;
  }
  return configs;
}

/// Where a method's run is kept; empty: nowhere.
std::string folder_of(const Arguments& arguments, const RunConfig& config) {
  return arguments.out.empty() ? "" : arguments.out + "/" + config.method;
}

Row run_one(const RunConfig& config, const Workload& workload, Runner& runner, const RunFolder& folder,
            Watcher& watcher, const CheckpointPlan& plan) {
  Row row{.method = config.method, .learning_rate = config.learning_rate};
  try {
    row.result = runner.run(config, workload, watcher, plan);
    row.figures = rank_figures(row.result);
    folder.finish(row.result);
  } catch (const InvalidConfig& error) {
    row.error = error.what();  // it diverged, or it cannot be run like that: the others may
  }
  return row;
}

/// "0.5, but 0.01 for signsgd, signum".
template <class Text>
std::string by_method(const std::vector<RunConfig>& configs, const Text& text_in) {
  std::vector<std::string> told{text_in(configs.front())};
  std::string text = told.front();
  for (const RunConfig& config : configs) {
    const std::string value = text_in(config);
    if (std::find(told.begin(), told.end(), value) != told.end()) continue;
    told.push_back(value);
    std::string methods;
    for (const RunConfig& other : configs) {
      if (text_in(other) == value) methods += (methods.empty() ? "" : ", ") + other.method;
    }
    text += (told.size() == 2 ? ", but " : ", ") + value + " for " + methods;
  }
  return text;
}

/// What methods of one comparison may have of their own: "learning rate 0.5, but 0.01 for signum; optimizer adamw, but
/// sgd for signum". The optimizer is left out if all that can choose have the same.
std::string rates_of(const std::vector<RunConfig>& configs) {
  std::string text =
      "learning rate " + by_method(configs, [](const RunConfig& config) { return text_of(config.learning_rate); });
  std::vector<RunConfig> choosing;
  for (const RunConfig& config : configs) {
    if (!method_row(config.method).fixes_optimizer()) choosing.push_back(config);
  }
  const auto name_of = [](const RunConfig& config) { return config.optimizer.name; };
  const auto differs = [&](const RunConfig& config) { return name_of(config) != name_of(choosing.front()); };
  if (std::none_of(choosing.begin(), choosing.end(), differs)) return text;
  return text + "; optimizer " + by_method(choosing, name_of);
}

void tell_start(const Arguments& arguments, const std::vector<RunConfig>& configs) {
  if (arguments.json.on_stdout()) return;
  std::cerr << fmt::format("{} on {}; {}\n",
                           configs.size() == 1 ? "one method" : fmt::format("{} methods", configs.size()),
                           setting_of(configs.front()), rates_of(configs));
}

void show(const Arguments& arguments, const std::vector<RunConfig>& configs, const std::vector<Row>& rows) {
  if (!arguments.json.on_stdout()) {
    std::cout << setting_of(configs.front()) << "; " << rates_of(configs) << "\n\n" << table_of(rows) << legend();
  }
  arguments.json.write(json_of(rows));
}

void compare(const Arguments& arguments, Runner& runner) {
  std::vector<RunConfig> configs = configs_of(arguments, runner.processes());
  std::deque<RunFolder> folders;
  std::string methods;
  if (runner.speaks()) arguments.json.require_writable();
  const auto workload = make_workload(configs.front(), arguments.flags.data_folder());  // the same data for all
  for (RunConfig& config : configs) {
    config = completed(std::move(config), *workload);
    folders.emplace_back(runner.speaks() ? folder_of(arguments, config) : "", config,
                         arguments.overwrite ? Earlier::overwritten : Earlier::kept);
    methods += (methods.empty() ? "" : ",") + config.method;
  }
  runner.require_same({{"methods", methods}});
  if (runner.speaks()) {
    tell_start(arguments, configs);
    tell_note(*workload);
  }
  const bench::Progress progress(runner.speaks());
  std::vector<Row> rows;
  try {
    for (std::size_t i = 0; i < configs.size(); ++i) {
      const RunConfig& config = configs[i];
      const std::string title = fmt::format("{} ({} of {})", config.method, i + 1, configs.size());
      const auto begun = std::chrono::steady_clock::now();
      Watcher watcher(progress, title, config.steps, folders[i]);
      const CheckpointPlan plan = plan_in(folder_of(arguments, config));
      rows.push_back(run_one(config, *workload, runner, folders[i], watcher, plan));
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
      if (runner.speaks() && !arguments.json.on_stdout()) tell_end(rows.back(), title, taken.count());
    }
  } catch (const std::exception& error) {
    // A full disk or a rank that is gone ends the methods that follow too. Those that have run are shown first.
    progress.clear();
    rows.push_back({.method = configs[rows.size()].method, .error = error.what()});
    if (runner.speaks()) show(arguments, configs, rows);
    throw;
  }
  progress.clear();
  if (!runner.speaks()) return;
  show(arguments, configs, rows);
  if (std::all_of(rows.begin(), rows.end(), [](const Row& row) { return !row.error.empty(); })) {
    throw Error("no method could be run; the first one failed with: " + rows.front().error);
  }
}

}  // namespace

void add_compare(CLI::App& program) {
  CLI::App* command = program.add_subcommand("compare", "Runs several methods on a problem or task: one table");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--methods", arguments->methods, "some of " + method_names() + "; default: all")
      ->option_text("NAME[,NAME...]");
  arguments->flags.add_to(*command, "0; with --out 1/50 of the steps, on a task 1/20 and at least 20");
  command->add_option("--out", arguments->out, "write the run of each method into DIR/METHOD, as train does")
      ->option_text("DIR");
  command->add_flag("--overwrite", arguments->overwrite, "let --out replace earlier runs");
  arguments->json.add_to(*command, "the rows");
  command->footer(
      "Examples:\n"
      "  laconic compare --problem linear-regression --methods sgd,topk,regtopk --keep 0.6\n"
      "  laconic compare --problem logistic-regression --steps 200 --out runs --json rows.json\n"
      "  laconic compare --task digits --methods sgd,topk,def,signum --keep 0.01 --out runs\n"
      "  laconic compare --task text --methods adam,signum,topk --keep 0.01 --steps 300 --out runs\n"
      "  laconic compare --methods sgd,signsgd --problem noisy-quadratic --set signsgd.learning_rate=0.01\n"
      "A parameter applies to all methods that have it; --set METHOD.NAME=VALUE sets it for one method.\n"
      "The exit code is 0 if a method could be run, 1 if none could, 2 for a wrong call. If a full disk or a lost\n"
      "rank ends the comparison, the exit code is 1, and the methods that had finished are shown.");
  command->callback([arguments] { with_runner([&](Runner& runner) { compare(*arguments, runner); }); });
}

}  // namespace laconic::tools
