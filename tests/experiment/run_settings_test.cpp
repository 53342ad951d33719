// The table of a run's settings: each row reads, writes, describes and refuses; files and checkpoints follow it.

#include "experiment/run_settings.h"

#include <gtest/gtest.h>

#include <set>

#include "experiment/config_state.h"
#include "experiment/config_text.h"
#include "laconic/error.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::contains;
using test::message_of;

/// A setting, a value other than its default that the table allows, and one that it refuses, if there is one.
struct Sample {
  const char* section;
  const char* name;
  const char* other;
  const char* wrong;
};

constexpr Sample kSamples[] = {
    {"run", "workers", "7", "0"},
    {"run", "within", "2", "3"},
    {"run", "steps", "9", "-1"},
    {"run", "seed", "18446744073709551615", "18446744073709551616"},
    {"run", "learning_rate", "0.5", "-1"},
    {"run", "schedule", "2:0.1,4:0.5", "2:-1"},
    {"run", "warmup", "5", "-1"},
    {"run", "clip", "2.5", "-1"},
    {"run", "nonfinite", "skip", "ignore"},
    {"run", "eval_interval", "3", "x"},
    {"run", "adversaries", "2", "5"},
    {"run", "compute_seconds", "0.25", "3601"},
    {"run", "slowdown", "1,1,1,4", "1,1,1,-4"},
    {"run", "overlap", "false", "perhaps"},
    {"run", "checkpoint_interval", "50", "4294967296"},
    {"run", "timeout", "30", "0"},
    {"run", "threads", "2", "1025"},
    {"task", "model", "mlp", nullptr},
    {"task", "text", "book.txt", nullptr},
    {"task", "batch", "32", "0"},
    {"task", "sampling", "replacement", "often"},
    {"task", "skew", "0.5", "2"},
    {"task", "augment", "false", "2"},
    {"task", "train_samples", "100", "-1"},
    {"task", "test_samples", "100", "-1"},
    {"task", "scoring_batch", "64", "65537"},
    {"task", "torch_threads", "2", "0"},
    {"task", "device", "cuda", "abacus"},
    {"task", "precision", "bf16", "f8"},
    {"optimizer", "name", "adam", "newton"},
    {"optimizer", "momentum", "0.5", "1"},
    {"optimizer", "nesterov", "true", "maybe"},
    {"optimizer", "weight_decay", "0.01", "1"},
    {"optimizer", "weight_decay_on", "matrices", "norms"},
    {"optimizer", "beta1", "0.8", "1"},
    {"optimizer", "beta2", "0.9", "-0.1"},
    {"optimizer", "epsilon", "1e-06", "0"},
};

/// A task's run with the entry last, and what that needs beside it.
std::vector<ConfigEntry> entries_with(const Sample& sample, const char* value) {
  const bool of_adam = std::string_view(sample.name).starts_with("beta") || std::string_view(sample.name) == "epsilon";
  return {{"task", "name", "digits"},
          {"run", "compute_seconds", "0.001"},
          {"optimizer", "name", of_adam ? "adam" : "sgd"},
          {sample.section, sample.name, value, "here"}};
}

TEST(RunSettings, AllHaveASample) {
  std::set<std::string> sampled;
  for (const Sample& sample : kSamples) sampled.insert(std::string(sample.section) + "." + sample.name);
  for (const RunSetting& row : run_settings()) {
    EXPECT_TRUE(sampled.contains(row.section + "." + row.name)) << row.name << ": add it to kSamples";
  }
  EXPECT_EQ(sampled.size(), run_settings().size());
}

TEST(RunSettings, AreReadAndWritten) {
  for (const Sample& sample : kSamples) {
    const RunConfig config = config_from(entries_with(sample, sample.other));
    EXPECT_EQ(last_value(entries_of(config), sample.section, sample.name), sample.other) << sample.name;
    const RunSetting* row = find_run_setting(sample.section, sample.name);
    RunConfig read;
    row->read(read, sample.other);
    EXPECT_EQ(row->text(read), sample.other) << sample.name;
  }
}

TEST(RunSettings, AreRefusedWithTheirPlace) {
  for (const Sample& sample : kSamples) {
    if (sample.wrong == nullptr) continue;
    const std::string text = message_of<InvalidConfig>([&] { config_from(entries_with(sample, sample.wrong)); });
    EXPECT_TRUE(text.starts_with("here: ")) << sample.name << ": " << text;
    EXPECT_TRUE(contains(text, sample.name) || contains(text, sample.section)) << sample.name << ": " << text;
  }
}

TEST(RunSettings, DescribeRangeAndDefault) {
  EXPECT_EQ(find_run_setting("task", "batch")->description(),
            "1..65536: samples per step of each worker; default 16");
  EXPECT_EQ(find_run_setting("task", "model")->description(), "such as mlp, cnn, resnet18, gpt; default: the task's");
  EXPECT_TRUE(find_run_setting("run", "timeout")->description().starts_with("(0, 86400]: "));
  EXPECT_TRUE(find_run_setting("run", "eval_interval")->description("50").ends_with("; default: 50"));
  EXPECT_EQ(find_run_setting("run", "batch"), nullptr);
}

// The words follow the traits of the methods.
TEST(RunSettings, DescribeDefaultsThatDependOnTheMethod) {
  EXPECT_EQ(find_run_setting("run", "learning_rate")->usual,
            "the problem's, but 0.01 for signsgd, signum; with --task 0.05, but 0.001 for adam and 5e-04 for "
            "signsgd, signum; with --task and optimizer adam or adamw 0.001");
  EXPECT_EQ(find_run_setting("optimizer", "momentum")->usual, "0; with --task 0.9, but 0 for adam, signsgd, signum");
  EXPECT_EQ(find_run_setting("optimizer", "nesterov")->usual,
            "false; with --task false, but true for diloco, sparseloco, mgrawa, lgrawa, easgd, lsgd, localsgd");
  EXPECT_EQ(find_run_setting("run", "schedule")->usual,
            "none; with --task 50:0.1,75:0.1 for 100 steps, in proportion for others; on text, tiny-shakespeare cosine");
}

// And the rows of the tasks.
TEST(RunSettings, DescribeDefaultsThatDependOnTheTask) {
  EXPECT_EQ(find_run_setting("run", "clip")->usual, "0; on text, tiny-shakespeare 1");
  EXPECT_EQ(find_run_setting("optimizer", "name")->usual,
            "sgd; on text, tiny-shakespeare adam, unless the method has its own");
  EXPECT_EQ(usual_on_tasks("0.5", [](const RunConfig&) { return std::string("0.5"); }), "");
}

// What a resumed run may have other than the checkpoint: nothing that decides what is computed or recorded.
TEST(RunSettings, MayChangeInAResumedRunOrNot) {
  const std::set<std::string> changeable{"threads", "timeout", "checkpoint_interval"};
  for (const Sample& sample : kSamples) {
    const RunConfig changed = config_from(entries_with(sample, sample.other));
    const RunSetting* row = find_run_setting(sample.section, sample.name);
    RunConfig saved = changed;
    row->read(saved, row->text(RunConfig()));
    const std::string text =
        message_of<InvalidConfig>([&] { require_same_config(config_state(saved), changed, "step-4"); });
    EXPECT_EQ(!contains(text, "set it back"), changeable.contains(sample.name)) << sample.name << ": " << text;
  }
}

}  // namespace
}  // namespace laconic
