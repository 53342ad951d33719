#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/progress.h"
#include "commands.h"
#include "data/task.h"
#include "diagnosis.h"
#include "json_output.h"
#include "laconic/error.h"
#include "laconic/threads.h"
#include "records/config_file.h"
#include "records/file_names.h"
#include "records/writer.h"
#include "run_flags.h"
#include "text_table.h"
#include "usage.h"
#include "workloads.h"

namespace laconic::tools {
namespace {

using Json = nlohmann::ordered_json;

/// A setting of the task or the run, where it was given.
struct TaskFlag {
  const char* section;
  const char* key;
  const char* usual = "";  ///< the default, if it is not that of every run
  std::string value{};
  CLI::Option* option = nullptr;
};

struct Flags {
  std::string run;
  bool start = false;
  std::string task;
  std::vector<TaskFlag> settings{{"task", "model"},
                                 {"task", "batch"},
                                 {"task", "skew"},
                                 {"task", "train_samples"},
                                 {"run", "workers", "4; their signs are compared"},
                                 {"run", "learning_rate", "0.05; sharpness is compared with it"},
                                 {"run", "seed"},
                                 {"task", "device"}};
  std::string data_folder;
  int torch_threads = 0;
  std::uint32_t batches = GradientOptions().batches;
  FlatnessOptions flatness{};
  JsonOutput json;
};

/// A point and what is measured there.
struct Diagnosis {
  RunConfig config;
  std::string checkpoint;  ///< empty: the start
  std::uint32_t step = 0;
  GradientReport gradients;
  Flatness flatness;
  std::vector<Finding> findings;
};

RunConfig task_config(const Flags& flags) {
  std::vector<ConfigEntry> entries{{"task", "name", task_row(flags.task).name}};
  for (const TaskFlag& setting : flags.settings) {
    if (setting.option->count() > 0) entries.push_back({setting.section, setting.key, setting.value});
  }
  return config_from(entries);
}

RunConfig run_config(const Flags& flags, const std::string& folder) {
  for (const TaskFlag& setting : flags.settings) {
    if (setting.option->count() == 0) continue;
    throw InvalidConfig("a run is diagnosed as it was configured: leave " + setting.option->get_name() +
                        " out, or name no run");
  }
  const std::string file = folder + "/" + kConfigFile;
  RunConfig config = config_from(read_config_file(file));
  if (config.task.name.empty()) {
    throw InvalidConfig(file + " is a run on the problem " + config.problem +
                        ": diagnose looks at networks; train one with --task digits");
  }
  return config;
}

/// In `diagnose --json run1` the word is the run: a folder.
void sort_out_names(Flags& flags) {
  if (flags.run.empty() && std::filesystem::is_directory(flags.json.file())) flags.run = flags.json.give_back();
  if (flags.run.empty() == flags.task.empty()) {
    throw InvalidConfig("name a run's folder or one of its checkpoints, or --task for the start of a task");
  }
  if (flags.start && flags.run.empty())
    throw InvalidConfig("--start is about a run: with --task it is the start anyway");
}

/// Where: the run's folder and its checkpoint, both empty for the start of a task.
Resumed place_of(const Flags& flags) {
  if (flags.run.empty()) return {};
  if (flags.start) return {flags.run, ""};
  return find_resumed(flags.run);
}

Diagnosis diagnose(const Flags& flags) {
  const Resumed place = place_of(flags);
  Diagnosis result;
  result.checkpoint = place.checkpoint;
  result.config = flags.run.empty() ? task_config(flags) : run_config(flags, place.folder);
  // Wherever a run was trained, its state lies in files, and here it is measured on the CPU.
  if (!flags.run.empty()) result.config.task.device = TaskConfig().device;
  if (result.config.task.device != TaskConfig().device) {
    throw InvalidConfig("diagnose measures on the CPU: leave --device " + result.config.task.device + " out");
  }
  if (flags.torch_threads > 0) result.config.task.torch_threads = flags.torch_threads;
  const auto workload = make_workload(result.config, flags.data_folder);
  result.config = completed(std::move(result.config), *workload);
  tell_note(*workload);
#if LACONIC_TORCH
  const bench::Progress progress(true);
  const auto show = [&](const char* what) {
    return [&progress, what](double share) { progress.say(fmt::format("{}: {:.0f} %", what, 100.0 * share)); };
  };
  const RunConfig& config = result.config;
  const NetworkPoint point =
      place.checkpoint.empty() ? start_point(config, *workload) : checkpoint_point(config, *workload, place.checkpoint);
  result.step = point.step;
  result.gradients = gradient_report(config, *workload, View<const float>(point.model),
                                     {.batches = flags.batches, .first_step = point.step}, show("gradients"));
  result.findings = gradient_findings(result.gradients, config.workers);
  if (flags.flatness.samples == 0) return result;
  result.flatness = flatness(config, *workload, point, flags.flatness, show("flatness"));
  const auto more =
      flatness_findings(result.flatness, flags.flatness.lanczos.starts, learning_rate_at(config, point.step));
  result.findings.insert(result.findings.end(), more.begin(), more.end());
#endif
  return result;
}

std::string place_text(const Diagnosis& it) {
  return it.checkpoint.empty() ? "the start"
                               : fmt::format("{}, after {} steps of {}", it.checkpoint, it.step, it.config.method);
}

/// One probe alone knows nothing of its error.
std::string error_text(const Finding& finding) {
  if (!finding.error) return "";
  return std::isfinite(*finding.error) ? fmt::format("{:.2g}", *finding.error) : "unknown";
}

std::string text_of(const Diagnosis& it) {
  const GradientReport& report = it.gradients;
  std::vector<std::vector<std::string>> about{
      {"what", fmt::format("{}, {} parameters, {} workers, seed {}", subject_of(it.config), report.parameters,
                           it.config.workers, it.config.seed)},
      {"where", place_text(it)},
      {"gradients", fmt::format("{} of batches of {}; mean loss {:.4f}, gradient's length {:.4g}", report.gradients,
                                it.config.task.batch, report.loss, report.gradient_norm)}};
  if (it.flatness.samples > 0) {
    about.push_back({"Hessian", fmt::format("of {} samples of the training set; mean loss {:.4f}", it.flatness.samples,
                                            it.flatness.loss)});
  }
  std::vector<std::vector<std::string>> rows{{"MEASURE", "VALUE", "+-", "BESIDE", "WHAT IT MEANS"}};
  for (const Finding& finding : it.findings) {
    rows.push_back({finding.measure, finding.text, error_text(finding), finding.compare_text, finding.meaning});
  }
  return text_table(about) + "\n" + text_table(rows, {false, true, true, true, false});
}

std::string json_of(const Diagnosis& it) {
  Json findings = Json::array();
  for (const Finding& finding : it.findings) {
    Json row{{"measure", finding.name}, {"value", finding.value}};
    if (finding.error) row["standard_error"] = *finding.error;
    if (finding.compare) row["beside"] = *finding.compare;
    row["meaning"] = finding.meaning;
    findings.push_back(std::move(row));
  }
  Json json{{"task", it.config.task.name},
            {"model", it.config.task.model},
            {"method", it.checkpoint.empty() ? Json() : Json(it.config.method)},
            {"checkpoint", it.checkpoint.empty() ? Json() : Json(it.checkpoint)},
            {"step", it.step},
            {"workers", it.config.workers},
            {"batch", it.config.task.batch},
            {"seed", it.config.seed},
            {"parameters", it.gradients.parameters},
            {"gradients", it.gradients.gradients},
            {"loss", it.gradients.loss},
            {"gradient_norm", it.gradients.gradient_norm},
            {"hessian_samples", it.flatness.samples},
            {"findings", std::move(findings)}};
  return json.dump(2) + "\n";
}

void run(Flags& flags) {
  sort_out_names(flags);
  flags.json.require_writable();
  const Diagnosis result = diagnose(flags);
  if (!flags.json.on_stdout()) std::cout << text_of(result);
  flags.json.write(json_of(result));
}

void add_measuring(CLI::App& command, Flags& flags) {
  const std::string group = "Measuring";
  const auto count = [&](const char* name, auto& value, const char* help, std::uint64_t low, std::uint64_t high) {
    command.add_option(name, value, fmt::format("{}; default {}", help, value))
        ->check(whole_in(low, high))
        ->group(group)
        ->option_text("NUMBER");
  };
  count("--batches", flags.batches, "mini-batches per worker", 1, 1000000);
  count("--samples", flags.flatness.samples, "training samples for the Hessian; 0: no flatness", 0, 100000000);
  count("--sample-batch", flags.flatness.batch, "samples per pass; affects only memory", 1, 1000000);
  count("--probes", flags.flatness.probes, "random vectors for the trace", 1, 100000);
  count("--starts", flags.flatness.lanczos.starts, "searches for the largest eigenvalue", 1, 1000);
  count("--lanczos-steps", flags.flatness.lanczos.steps, "most steps per search", 1, 1000);
  count("--probe-seed", flags.flatness.seed, "seed of samples, probes and starts", 0, ~std::uint64_t{0});
  count("--torch-threads", flags.torch_threads, "threads of the network's operators; 0: as in the run", 0, kMostThreads);
}

}  // namespace

void add_diagnose(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("diagnose", "Measures gradients, noise and flatness of a network, to choose a method");
  auto flags = std::make_shared<Flags>();
  command->add_option("run", flags->run, "a checkpoint, or a run's folder (its newest checkpoint is used)");
  command->add_flag("--start", flags->start, "diagnose the start of the run instead of a checkpoint");
  command->add_option("--task", flags->task, "diagnose the start of a task instead of a run: " + task_names())
      ->option_text("NAME");
  command
      ->add_option("--data", flags->data_folder, "folder of the data sets' folders; default: LACONIC_DATA, or data")
      ->option_text("DIR");
  for (TaskFlag& flag : flags->settings) {
    const RunSetting& setting = *find_run_setting(flag.section, flag.key);
    const std::string help = setting.description(*flag.usual != '\0' ? flag.usual : setting.usual);
    flag.option =
        command->add_option(flag_names(setting), flag.value, help)->group("With --task")->option_text("VALUE");
  }
  add_measuring(*command, *flags);
  flags->json.add_to(*command, "the findings");
  command->footer(
      "Examples:\n"
      "  laconic diagnose --task digits --model cnn --workers 8\n"
      "  laconic train --task digits --method topk --keep 0.01 --out run1 --checkpoint-interval 100\n"
      "  laconic diagnose run1\n"
      "  laconic diagnose run1/checkpoints/step-0000000100 --samples 2000 --probes 50 --json flatness.json\n"
      "docs/diagnose.md describes how each figure is measured and what it is compared with.\n"
      "The exit code is 0 if it could be measured, 1 if not (a damaged checkpoint, a NaN), 2 for a wrong call.");
  command->callback([flags] { run(*flags); });
}

}  // namespace laconic::tools
