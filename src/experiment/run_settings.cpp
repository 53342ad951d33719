#include "experiment/run_settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "data/task.h"
#include "experiment/derive.h"
#include "laconic/error.h"
#include "laconic/threads.h"
#include "laconic/two_levels.h"
#include "methods/optimizer.h"
#include "methods/table.h"

namespace laconic {
namespace {

constexpr std::uint32_t kAnyCount = std::numeric_limits<std::uint32_t>::max();

[[noreturn]] void refuse_text(std::string_view name, std::string_view kind, std::string_view text) {
  throw InvalidConfig(std::string(name) + " must be " + std::string(kind) + ", got \"" + std::string(text) + "\"");
}

[[noreturn]] void refuse(const std::string& what, const std::string& value, const std::string& remedy) {
  throw InvalidConfig(what + ", got " + value + ": " + remedy);
}

template <class Number>
std::optional<Number> parsed(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
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

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : between).append(word);
  return text;
}

// A setting lies in RunConfig, in its task or in its optimizer, and that is its section.

template <class Owner>
constexpr const char* kSection = "run";
template <>
constexpr const char* kSection<TaskConfig> = "task";
template <>
constexpr const char* kSection<OptimizerOptions> = "optimizer";

template <class Owner, class Config>
auto& part_of(Config& config) {
  if constexpr (std::is_same_v<Owner, TaskConfig>) {
    return config.task;
  } else if constexpr (std::is_same_v<Owner, OptimizerOptions>) {
    return config.optimizer;
  } else {
    return config;
  }
}

template <class Owner, class Whole>
RunSetting whole(const char* name, Whole Owner::*member, Whole low, Whole high, const char* help) {
  const std::string range = std::to_string(low) + ".." + std::to_string(high);
  RunSetting made{.section = kSection<Owner>, .name = name, .range = range, .help = help};
  made.read = [=](RunConfig& config, const std::string& text) {
    const auto value = parsed<Whole>(text);
    if (!value) {
      const RunConfig usual;
      const std::string example = std::to_string(part_of<Owner>(usual).*member);
      refuse_text(name, "a whole number in " + range + ", such as " + example, text);
    }
    part_of<Owner>(config).*member = *value;
  };
  made.text = [=](const RunConfig& config) { return std::to_string(part_of<Owner>(config).*member); };
  made.require = [=](const RunConfig& config) {
    const Whole value = part_of<Owner>(config).*member;
    if (value < low || value > high) {
      refuse(std::string(name) + " must be in " + range, std::to_string(value), help);
    }
  };
  return made;
}

template <class Owner>
RunSetting number(const char* name, double Owner::*member, Interval interval, const char* help) {
  RunSetting made{.section = kSection<Owner>, .name = name, .range = interval.text(), .help = help};
  made.read = [=](RunConfig& config, const std::string& text) {
    part_of<Owner>(config).*member = number_from(name, text);
  };
  made.text = [=](const RunConfig& config) { return text_of(part_of<Owner>(config).*member); };
  made.require = [=](const RunConfig& config) {
    const double value = part_of<Owner>(config).*member;
    if (!interval.has(value)) refuse(std::string(name) + " must be in " + interval.text(), text_of(value), help);
  };
  return made;
}

template <class Owner>
RunSetting truth(const char* name, bool Owner::*member, const char* help) {
  RunSetting made{.section = kSection<Owner>, .name = name, .range = "true | false", .help = help};
  made.read = [=](RunConfig& config, const std::string& text) {
    const bool yes = text == "true" || text == "1" || text == "on";
    if (!yes && text != "false" && text != "0" && text != "off") refuse_text(name, "true or false", text);
    part_of<Owner>(config).*member = yes;
  };
  made.text = [=](const RunConfig& config) { return std::string(part_of<Owner>(config).*member ? "true" : "false"); };
  return made;
}

/// Any text if there are no choices.
template <class Owner>
RunSetting word(const char* name, std::string Owner::*member, const std::vector<std::string>& choices,
                const char* help) {
  RunSetting made{.section = kSection<Owner>, .name = name, .range = joined(choices, " | "), .help = help};
  made.read = [=](RunConfig& config, const std::string& text) { part_of<Owner>(config).*member = text; };
  made.text = [=](const RunConfig& config) { return part_of<Owner>(config).*member; };
  if (choices.empty()) return made;
  made.require = [=](const RunConfig& config) {
    const std::string& value = part_of<Owner>(config).*member;
    if (std::find(choices.begin(), choices.end(), value) != choices.end()) return;
    refuse(std::string(name) + " must be " + joined(choices, " or "), '"' + value + '"', help);
  };
  return made;
}

// Settings that are no plain number, word or truth.

constexpr const char* kCosine = "cosine";

RunSetting schedule() {
  RunSetting made{.section = "run",
                  .name = "schedule",
                  .range = "STEP:FACTOR[,STEP:FACTOR...], cosine or none",
                  .help = "multiplies the learning rate by FACTOR from STEP on; cosine lowers it to a tenth"};
  made.read = [](RunConfig& config, const std::string& text) {
    config.schedule.clear();
    config.cosine = text == kCosine;
    for (const std::string& part : split(is_none(text) || config.cosine ? "" : text, ',')) {
      const auto halves = split(part, ':');
      if (halves.size() != 2) {
        refuse_text("schedule", "STEP:FACTOR[,STEP:FACTOR...], such as 100:0.1,150:0.1, or cosine, or none", text);
      }
      const auto step = parsed<std::uint32_t>(halves[0]);
      if (!step) refuse_text("a schedule's step", "a whole number in 0.." + std::to_string(kAnyCount), halves[0]);
      config.schedule.push_back({*step, number_from("a schedule's factor", halves[1])});
    }
  };
  made.text = [](const RunConfig& config) {
    if (config.cosine) return std::string(kCosine);
    std::vector<std::string> drops;
    for (const auto& drop : config.schedule) drops.push_back(std::to_string(drop.step) + ":" + text_of(drop.factor));
    return joined(drops, ",");
  };
  made.require = [](const RunConfig& config) {
    for (const LearningRateDrop& drop : config.schedule) {
      if (drop.factor >= 0.0 && std::isfinite(drop.factor)) continue;
      refuse("a schedule's factor must be 0 or more and finite", text_of(drop.factor),
             "it multiplies the learning rate from its step on");
    }
  };
  constexpr std::uint32_t usual_steps = 100;
  RunConfig usual;
  usual.schedule = default_task_schedule(usual_steps);
  const std::string on_tasks = made.text(usual);
  made.usual = "none; with --task " + on_tasks + " for 100 steps, in proportion for others";
  made.usual += usual_on_tasks(on_tasks, [&](RunConfig config) {
    config.steps = usual_steps;
    set_default_schedule(config);
    return made.text(config);
  });
  return made;
}

/// A default that depends on the method: "0.9, but 0 for adam, signsgd, signum".
std::string usual_by_method(const std::function<std::string(const MethodRow&)>& usual) {
  const std::string common = usual(method_row(kDenseMethod));
  std::vector<std::pair<std::string, std::string>> others;  // value, and the methods that have it
  for (const MethodRow& row : method_table()) {
    const std::string value = usual(row);
    if (value == common) continue;
    const auto found = std::ranges::find(others, value, &std::pair<std::string, std::string>::first);
    if (found == others.end()) {
      others.emplace_back(value, row.name);
    } else {
      found->second.append(", ").append(row.name);
    }
  }
  std::string text = common;
  for (const auto& [value, methods] : others) {
    text.append(text == common ? ", but " : " and ").append(value).append(" for ").append(methods);
  }
  return text;
}

/// The default on a network, as default_task_config has it.
std::string usual_on_task(const RunSetting& setting) {
  return usual_by_method([&](const MethodRow& row) { return setting.text(default_task_config("", row.name)); });
}

RunSetting learning_rate() {
  RunSetting made = number("learning_rate", &RunConfig::learning_rate, kLearningRateRange,
                           "step size; 0.01 is a common start");
  made.usual = usual_by_method([](const MethodRow& row) {
    const double own = row.traits.usual.problem_rate;
    return own > 0.0 ? text_of(own) : std::string("the problem's");
  });
  made.usual += "; with --task " + usual_on_task(made);
  made.usual += "; with --task and optimizer adam or adamw " + text_of(usual_rate(OptimizerKind::adam));
  made.flags = "--lr,--learning-rate,--learning_rate";
  return made;
}

RunSetting nonfinite() {
  RunSetting made{.section = "run",
                  .name = "nonfinite",
                  .range = "error | skip",
                  .help = "what a NaN or an infinity in a gradient does: ends the run, or drops the step"};
  made.read = [](RunConfig& config, const std::string& text) {
    const bool skips = text == "skip";
    if (!skips && text != "error") refuse_text("nonfinite", "error or skip", text);
    config.nonfinite = skips ? NonfinitePolicy::skip : NonfinitePolicy::error;
  };
  made.text = [](const RunConfig& config) {
    return std::string(config.nonfinite == NonfinitePolicy::skip ? "skip" : "error");
  };
  return made;
}

RunSetting adversaries() {
  RunSetting made = whole("adversaries", &RunConfig::adversaries, 0, kMostRanks,
                          "number of workers, the last ones, that invert their gradients");
  made.range = "0..workers";
  made.require = [](const RunConfig& config) {
    if (config.adversaries >= 0 && config.adversaries <= config.workers) return;
    refuse("adversaries must be in 0.." + std::to_string(config.workers) + ", the number of workers",
           std::to_string(config.adversaries), "this many workers invert their gradients");
  };
  return made;
}

RunSetting within() {
  RunSetting made{.section = "run",
                  .name = "within",
                  .range = "N, host or none",
                  .help = "two levels: gradients are averaged uncompressed within N neighbouring workers, or within a "
                          "host, and the method runs between these; for gradient methods"};
  made.read = [](RunConfig& config, const std::string& text) {
    if (is_none(text)) {
      config.within = RunConfig::kOneLevel;
    } else if (text == "host") {
      config.within = RunConfig::kByHostName;
    } else {
      const auto ranks = parsed<int>(text);
      if (!ranks || *ranks < 1) refuse_text("within", "a number of workers per host, such as 4, or host or none", text);
      config.within = *ranks;
    }
  };
  made.text = [](const RunConfig& config) {
    if (config.within == RunConfig::kOneLevel) return std::string("none");
    return config.within == RunConfig::kByHostName ? std::string("host") : std::to_string(config.within);
  };
  made.require = [](const RunConfig& config) {
    if (config.within == RunConfig::kOneLevel) return;
    require_levels(method_row(config.method), true);
    if (config.within == RunConfig::kByHostName) return;
    try {
      hosts_of_size(config.workers, config.within);
    } catch (const InvalidConfig& error) {
      throw InvalidConfig("within: " + std::string(error.what()));
    }
  };
  return made;
}

RunSetting slowdown() {
  RunSetting made{.section = "run",
                  .name = "slowdown",
                  .range = "FACTOR,FACTOR,... or none",
                  .help = "factor on compute_seconds per rank, such as 1,1,1,4"};
  made.read = [](RunConfig& config, const std::string& text) {
    config.slowdown.clear();
    for (const auto& part : split(is_none(text) ? "" : text, ',')) {
      config.slowdown.push_back(number_from("slowdown", part));
    }
  };
  made.text = [](const RunConfig& config) {
    std::vector<std::string> factors;
    for (const double factor : config.slowdown) factors.push_back(text_of(factor));
    return joined(factors, ",");
  };
  made.require = [](const RunConfig& config) {
    if (config.slowdown.empty()) return;
    if (config.slowdown.size() != static_cast<std::size_t>(config.workers)) {
      refuse("slowdown must have one number per worker", std::to_string(config.slowdown.size()) + " of them",
             "give " + std::to_string(config.workers) + ", or none");
    }
    for (const double factor : config.slowdown) {
      if (factor >= 0.0 && factor <= 1e6) continue;
      refuse("a slowdown must be in [0, 1000000]", text_of(factor), "4 makes the worker's gradients take 4 times as long");
    }
    if (config.compute_seconds == 0.0) {
      throw InvalidConfig("slowdown without compute_seconds slows nothing: set how long a gradient takes");
    }
  };
  made.usual = "1 for all";
  return made;
}

/// Those that a run can choose: a host's own is not one of them.
std::string chosen_optimizers() {
  std::vector<std::string> names;
  for (const std::string_view name : optimizer_names()) {
    if (optimizer_kind(name) != OptimizerKind::host) names.emplace_back(name);
  }
  return joined(names, " | ");
}

RunSetting optimizer_name() {
  RunSetting made{.section = "optimizer",
                  .name = "name",
                  .range = chosen_optimizers(),
                  .help = "optimizer that applies the aggregate, or makes a worker's local steps"};
  made.read = [](RunConfig& config, const std::string& text) { config.optimizer.name = text; };
  made.text = [](const RunConfig& config) { return optimizer_of(method_row(config.method), config.optimizer).name; };
  made.require = [text = made.text](const RunConfig& config) {
    const std::string name = text(config);
    if (method_row(config.method).suits(config.options) != Suits::vote || !is_adam(optimizer_kind(name))) return;
    refuse("the optimizer of " + config.method + ", a vote, must be sgd", name,
           "a vote is an optimizer itself, and an Adam-like one after it learns little; leave the optimizer out, or "
           "use a method that suits any optimizer (SUITS in `laconic methods`)");
  };
  const std::string usual = made.text(RunConfig());
  made.usual = usual + usual_on_tasks(usual, made.text) + ", unless the method has its own";
  made.flags = "--optimizer";
  return made;
}

// What sets a row apart from the others of its kind.

RunSetting usually(RunSetting setting, std::string usual) {
  setting.usual = std::move(usual);
  return setting;
}

/// A default of its own on networks.
RunSetting task_decides(RunSetting setting) {
  setting.usual = setting.text(RunConfig()) + "; with --task " + usual_on_task(setting);
  return setting;
}

/// The same default on problems and most tasks, another on some.
RunSetting differs_by_task(RunSetting setting) {
  const std::string usual = setting.text(RunConfig());
  setting.usual = usual + usual_on_tasks(usual, setting.text);
  return setting;
}

RunSetting changeable(RunSetting setting) {
  setting.may_change = true;
  return setting;
}

RunSetting spelled(RunSetting setting, std::string flags, std::string flag_value = {}) {
  setting.flags = std::move(flags);
  setting.flag_value = std::move(flag_value);
  return setting;
}

// clang-format off
std::vector<RunSetting> run_rows() {
  using C = RunConfig;
  return {
      usually(whole("workers", &C::workers, 1, kMostRanks, "ranks, each a thread or a process"), "the problem's or task's, or mpirun's"),
      within(),
      usually(whole("steps", &C::steps, 0U, kAnyCount, "steps of each worker; 0 only evaluates the start"), "the problem's or task's"),
      whole("seed", &C::seed, std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(), "seed of data, noise and every draw"),
      learning_rate(),
      schedule(),
      usually(whole("warmup", &C::warmup, 0U, kAnyCount, "number of first steps, in which the learning rate rises linearly"), "a tenth of the steps with schedule cosine, otherwise 0"),
      differs_by_task(number("clip", &C::clip, {0.0, 1e30}, "largest norm of each worker's gradient, which is scaled down before the method uses it; 0: no clipping; excludes overlap")),
      nonfinite(),
      whole("eval_interval", &C::eval_interval, 0U, kAnyCount, "steps between evaluations; 0 evaluates only at the end"),
      adversaries(),
      number("compute_seconds", &C::compute_seconds, {0.0, 3600.0}, "minimum time of one gradient in seconds"),
      slowdown(),
      spelled(truth("overlap", &C::overlap, "tensors are exchanged while backward still runs, if the method can"), "--no-overlap", "false"),
      changeable(whole("checkpoint_interval", &C::checkpoint_interval, 0U, kAnyCount, "steps between checkpoints in the run's folder; 0 keeps none")),
      changeable(number("timeout", &C::timeout, {0.0, 86400.0, "(]"}, "seconds after which a rank that does not respond counts as failed")),
      changeable(whole("threads", &C::threads, 0, kMostThreads, "threads of each rank's kernels; 0 is one per core")),
  };
}

std::vector<RunSetting> task_rows() {
  using T = TaskConfig;
  return {
      usually(word("model", &T::model, {}, "such as mlp, cnn, resnet18, gpt"), "the task's"),
      usually(word("text", &T::text, {}, "a text file for the task text"), "none, and the program writes a text"),
      whole("batch", &T::batch, 1U, 65536U, "samples per step of each worker"),
      word("sampling", &T::sampling, {"epochs", "replacement"}, "epochs uses each sample once per epoch; replacement draws from all of them each time"),
      number("skew", &T::skew, {0.0, 1.0}, "0 gives all workers similar samples, 1 sorts samples by label"),
      truth("augment", &T::augment, "crop and flip images, if the task does that"),
      whole("train_samples", &T::train_samples, 0U, kAnyCount, "train on only the first samples, this many; 0 for all"),
      whole("test_samples", &T::test_samples, 0U, kAnyCount, "test on only the first samples, this many; 0 for all"),
      whole("scoring_batch", &T::scoring_batch, 0U, 65536U, "samples that score the models of a round; 0: same as batch"),
      whole("torch_threads", &T::torch_threads, 1, kMostThreads, "threads of each worker's network; 1 gives the same bits everywhere"),
      word("device", &T::device, {"cpu", "cuda"}, "where networks and methods compute; with cuda all workers share the first GPU"),
      word("precision", &T::precision, {"f32", "bf16"}, "what a network's matrix products take; bf16 rounds their inputs (autocast), while parameters, gradients and methods keep float32"),
  };
}

std::vector<RunSetting> optimizer_rows() {
  using O = OptimizerOptions;
  return {
      optimizer_name(),
      task_decides(number("momentum", &O::momentum, kMomentumRange, "momentum of sgd; 0.9 is usual")),
      task_decides(truth("nesterov", &O::nesterov, "Nesterov's momentum in sgd")),
      number("weight_decay", &O::weight_decay, kWeightDecayRange, "adds this factor times the model to its gradient; adamw instead shrinks the model by it times the learning rate"),
      word("weight_decay_on", &O::weight_decay_on, {"all", "matrices"}, "tensors to which weight_decay applies; matrices leaves norms and biases out"),
      number("beta1", &O::beta1, kBetaRange, "adam's decay of the mean"),
      number("beta2", &O::beta2, kBetaRange, "adam's decay of the mean of squares"),
      number("epsilon", &O::epsilon, kEpsilonRange, "adam's addend to the square root; 1e-8 is usual"),
  };
}
// clang-format on

}  // namespace

std::string RunSetting::description(const std::string& usual_here) const {
  const std::string own = usual_here.empty() ? " " + text(RunConfig()) : ": " + usual_here;
  return (range.empty() ? "" : range + ": ") + help + "; default" + own;
}

std::string usual_on_tasks(const std::string& common, const std::function<std::string(const RunConfig&)>& text) {
  std::vector<std::pair<std::string, std::string>> others;  // tasks, and the value that they have
  for (const TaskRow& row : task_table()) {
    const std::string value = text(default_task_config(row.name, row.training.method));
    if (value == common) continue;
    const auto found = std::ranges::find(others, value, &std::pair<std::string, std::string>::second);
    if (found == others.end()) {
      others.emplace_back(row.name, value);
    } else {
      found->first.append(", ").append(row.name);
    }
  }
  std::string clauses;
  for (const auto& [tasks, value] : others) clauses.append("; on ").append(tasks).append(" ").append(value);
  return clauses;
}

std::span<const RunSetting> run_settings() {
  static const std::vector<RunSetting> table = [] {
    std::vector<RunSetting> all = run_rows();
    for (RunSetting& row : task_rows()) all.push_back(std::move(row));
    for (RunSetting& row : optimizer_rows()) all.push_back(std::move(row));
    return all;
  }();
  return table;
}

const RunSetting* find_run_setting(std::string_view section, std::string_view name) {
  for (const RunSetting& setting : run_settings()) {
    if (setting.section == section && setting.name == name) return &setting;
  }
  return nullptr;
}

bool counts_in(const RunSetting& setting, const RunConfig& config) {
  return setting.section != kSection<TaskConfig> || !config.task.name.empty();
}

double number_from(std::string_view name, std::string_view text) {
  const auto value = parsed<double>(text);
  if (!value || !std::isfinite(*value)) refuse_text(name, "a finite number, such as 0.01", text);
  return *value;
}

}  // namespace laconic
