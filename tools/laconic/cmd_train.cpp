#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <sstream>

#include "base/printable.h"
#include "commands.h"
#include "json_output.h"
#include "laconic/error.h"
#include "metric_text.h"
#include "records/config_file.h"
#include "records/file_names.h"
#include "records/formats.h"
#include "records/writer.h"
#include "run_flags.h"
#include "runner.h"
#include "text_table.h"
#include "usage.h"
#include "workloads.h"

namespace laconic::tools {
namespace {

struct Arguments {
  RunFlags flags;
  std::string method;
  std::string out;
  std::string resume;
  bool overwrite = false;
  std::uint32_t sample = 200;
  JsonOutput json;
};

/// On a terminal one line that is written over, else a plain line now and then; and the run's folder.
class Watcher final : public Observer {
 public:
  /// mpirun gives its processes a terminal of its own, whatever its output is: there, lines. Where stdout belongs to
  /// JSON the line is on stderr, and none in a pipe.
  Watcher(std::uint32_t steps, bool alone, std::FILE* stream, RunFolder& folder, std::function<void()> tell_start)
      : stream_(stream),
        terminal_(alone && isatty(fileno(stream)) != 0),
        every_(std::max(1U, steps / 20)),
        folder_(folder),
        tell_start_(std::move(tell_start)) {}

  void on_start(std::uint32_t steps) override {
    folder_.on_start(steps);
    tell_start_();
  }

  void on_step(const StepRecord& record) override {
    folder_.on_step(record);
    sent_ += record.report.traffic.sent_bytes;
    if (!record.loss) return;
    const MetricText worth = metric_text(record);
    // The whole run's, where it is known: one that goes on has sent before.
    if (!record.sent_by_rank.empty()) sent_ = record.sent_by_rank.front();
    const std::string line = fmt::format("step {:>6}  loss {:.6e}  {} {}  sent {}", record.step, *record.loss,
                                         worth.name, worth.value, bytes_text(static_cast<double>(sent_)));
    if (terminal_) {
      std::fprintf(stream_, "\r\033[K%s", line.c_str());
    } else if (stream_ == stdout && (record.step == 1 || record.step / every_ != last_ / every_)) {
      std::fprintf(stream_, "%s\n", line.c_str());
      last_ = record.step;
    }
    std::fflush(stream_);
  }

  void clear() const {
    if (terminal_) std::fputs("\r\033[K", stream_);
    std::fflush(stream_);
  }

 private:
  std::FILE* stream_;
  bool terminal_;
  std::uint32_t every_;
  std::uint32_t last_ = 0;
  std::uint64_t sent_ = 0;
  RunFolder& folder_;
  std::function<void()> tell_start_;
};

std::string summary(const RunConfig& config, const RunResult& result) {
  // A slow rank of an asynchronous run may have made no step: then nothing of it is known per step.
  const bool stepped = result.steps > 0;
  const auto steps = static_cast<double>(result.steps);
  const Traffic& traffic = result.traffic;
  const auto share = [&](double seconds) { return seconds_text(seconds / steps); };
  const MetricText worth = metric_text(result);
  const auto sent = [&](const Traffic& sum, std::uint64_t by_all) {
    const std::string of_rank = bytes_text(static_cast<double>(sum.sent_bytes) / steps) + " per step by rank 0, ";
    return (stepped ? of_rank : "") + bytes_text(static_cast<double>(by_all)) + " in total by all ranks";
  };
  const bool two_levels = !result.inside_sent_by_rank.empty();
  std::vector<std::vector<std::string>> rows{
      {"run", config.method + " on " + setting_of(config)},
      {"loss", fmt::format("{:.6e}", result.loss)},
      {worth.name, worth.value}};
  if (stepped) rows.push_back({"payload", bytes_text(static_cast<double>(traffic.payload_bytes) / steps) + " per step"});
  rows.push_back({two_levels ? "between" : "sent", sent(traffic, result.total_sent_bytes)});
  if (two_levels) {
    const auto& inside = result.inside_sent_by_rank;
    const std::uint64_t by_all = std::accumulate(inside.begin(), inside.end(), std::uint64_t{0});
    rows.push_back({"inside", sent(result.within, by_all)});
  }
  if (stepped) {
    rows.push_back(
        {"step", fmt::format("{}: gradient {}, select {}, encode {}, exchange {}, decode {}", share(result.step_seconds),
                             share(result.gradient_seconds), share(result.select_seconds),
                             share(traffic.encode_seconds), share(traffic.exchange_seconds),
                             share(traffic.decode_seconds))});
  } else if (config.steps > 0) {
    rows.push_back({"step", "not known: the other ranks made all steps before rank 0 made one"});
  }
  if (result.device != device_name(Device::cpu)) rows.push_back({"device", result.device});
  if (result.mean_bits > 0.0) rows.push_back({"bits", fmt::format("{:.2f} per value", result.mean_bits)});
  if (result.rounds > 0) rows.push_back({"rounds", std::to_string(result.rounds)});
  if (result.skipped > 0) rows.push_back({"skipped", std::to_string(result.skipped)});
  if (result.undone > 0) rows.push_back({"undone", std::to_string(result.undone)});
  return text_table(rows);
}

/// The lines of a text, each of them safe to print.
std::string printable_lines(const std::string& text) {
  std::stringstream lines(text);
  std::string safe;
  for (std::string line; std::getline(lines, line);) safe += printable(line) + "\n";
  return safe;
}

/// What the model writes at the point that was tested last, if it is one of language.
void show_text(const Arguments& arguments, const RunConfig& config, const Workload& workload, const RunResult& result) {
  if (arguments.json.on_stdout()) return;
  const std::string text = workload.write_text(config, result.model, arguments.sample);
  if (!text.empty()) std::cout << "\nThe model writes (--sample sets the length):\n" << printable_lines(text) << std::flush;
}

RunConfig config_of(const Arguments& arguments, int processes) {
  if (arguments.method.find(',') != std::string::npos) {
    throw InvalidConfig("--method takes one method, got " + arguments.method + ": laconic compare --methods " +
                        arguments.method + " runs several");
  }
  const std::string in_file = arguments.flags.method_in_file();
  const std::string method = !arguments.method.empty() ? arguments.method
                             : !in_file.empty()        ? in_file
                                                       : arguments.flags.usual_method();
  RunConfig config = arguments.flags.config(method, false, processes);
  arguments.flags.require_used({config.method});
  require_place_for_checkpoints(config, arguments.out);
  return config;
}

/// The configuration of a run that goes on is the one in its folder.
RunConfig resumed_config(const Arguments& arguments, const Resumed& resumed, int processes) {
  const std::string other = !arguments.method.empty() ? "--method"
                            : !arguments.out.empty()  ? "--out"
                            : arguments.overwrite     ? "--overwrite"
                                                      : arguments.flags.first_given();
  if (!other.empty()) {
    throw InvalidConfig("--resume continues the run as it was configured: remove " + other +
                        " (only --data, --sample and --json may stay)");
  }
  const RunConfig config = config_from(read_config_file(resumed.folder + "/" + kConfigFile));
  if (processes > 0 && processes != config.workers) {
    throw InvalidConfig("the run has " + std::to_string(config.workers) + " workers, mpirun started " +
                        std::to_string(processes) + " processes: start the same number of processes");
  }
  return config;
}

/// What begins, and where it is kept.
void tell_start(const Arguments& arguments, const RunConfig& config, const Resumed& resumed) {
  if (arguments.json.on_stdout()) return;
  const std::string fate = resumed.folder.empty()       ? "not saved (--out DIR saves it)"
                           : resumed.checkpoint.empty() ? "written to " + resumed.folder
                                                        : "continues from " + resumed.checkpoint;
  std::cout << printable(fmt::format("{} on {}; {}", config.method, setting_of(config), fate)) << std::endl;
}

std::string usual_method_text() {
  const std::string common = RunConfig().method;
  return common + usual_on_tasks(common, [](const RunConfig& config) { return config.method; });
}

std::string usual_interval_text() {
  return std::to_string(RunConfig().eval_interval) + ", on a task " +
         std::to_string(default_task_config("", RunConfig().method).eval_interval);
}

void train(const Arguments& arguments, Runner& runner) {
  const bool resuming = !arguments.resume.empty();
  const Resumed resumed = resuming ? find_resumed(arguments.resume) : Resumed{arguments.out, ""};
  const int processes = runner.processes();
  RunConfig config = resuming ? resumed_config(arguments, resumed, processes) : config_of(arguments, processes);
  const auto workload = make_workload(config, arguments.flags.data_folder());
  config = completed(std::move(config), *workload);
  const Earlier earlier = resuming               ? Earlier::resumed
                          : arguments.overwrite ? Earlier::overwritten
                                                : Earlier::kept;
  RunFolder folder(runner.speaks() ? resumed.folder : "", config, earlier);
  if (runner.speaks()) {
    arguments.json.require_writable();
    if (resuming) require_sound_checkpoint(resumed.checkpoint, config.workers);
  }
  CheckpointPlan plan = plan_in(resumed.folder);
  plan.resume = resumed.checkpoint;
  Watcher watcher(config.steps, processes == 0, arguments.json.on_stdout() ? stderr : stdout, folder, [&] {
    tell_start(arguments, config, resumed);
    tell_note(*workload);
  });
  runner.require_same({{"methods", config.method}});
  const RunResult result = runner.run(config, *workload, watcher, plan);
  if (!runner.speaks()) return;
  watcher.clear();
  if (!arguments.json.on_stdout()) std::cout << summary(config, result) << std::flush;
  folder.finish(result);
  show_text(arguments, config, *workload, result);
  arguments.json.write(result_json(config, result));
}

}  // namespace

void add_train(CLI::App& program) {
  CLI::App* command = program.add_subcommand("train", "Runs one method on one problem or task");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--method", arguments->method, "one of " + method_names() + "; default " + usual_method_text())->option_text("NAME");
  arguments->flags.add_to(*command, usual_interval_text());
  command->add_option("--out", arguments->out, "write config.json, metrics.jsonl and result.json into DIR")
      ->option_text("DIR");
  command->add_flag("--overwrite", arguments->overwrite, "let --out replace an earlier run");
  command
      ->add_option("--resume", arguments->resume,
                   "continue the run in DIR from its newest checkpoint, or from the checkpoint DIR")
      ->option_text("DIR");
  command
      ->add_option("--sample", arguments->sample,
                   "0..100000: characters that a trained model of language writes at the end, drawn with the run's seed; "
                   "0: none; default 200")
      ->check(whole_in(0, 100000))
      ->option_text("NUMBER");
  arguments->json.add_to(*command, "the result");
  command->footer(
      "Examples:\n"
      "  laconic train --problem linear-regression --method regtopk --keep 0.6 --out run1\n"
      "  laconic train --config run1/config.json --seed 2\n"
      "  laconic train --task digits --method regtopk --keep 0.01 --out run2 --checkpoint-interval 100\n"
      "  laconic train --resume run2\n"
      "  laconic train --task text --method signum --workers 4\n"
      "  laconic train --task text --text book.txt --model gpt --method signum --sample 500\n"
      "  laconic train --task cifar10 --model resnet18 --device cuda --workers 8 --method topk --keep 0.01\n"
      "  laconic train --problem noisy-quadratic --set dimension=1000 --method signsgd --workers 7 --lr 0.01\n"
      "  mpirun -n 4 laconic train --problem logistic-regression --method qsgd --bits 4\n"
      "laconic methods and laconic problems list the names; docs/experiments.md describes the files.\n"
      "The exit code is 0 if the run ended, 1 if it failed (a NaN, a lost rank, a file), 2 for a wrong call.");
  command->callback([arguments] { with_runner([&](Runner& runner) { train(*arguments, runner); }); });
}

}  // namespace laconic::tools
