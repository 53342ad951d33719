// Checkpoints that were edited, with a checksum that fits: --resume refuses them before a step.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "experiment/checkpoint.h"
#include "experiment/run.h"
#include "laconic/error.h"
#include "methods/saved_entries.h"
#include "support/support.h"
#include "support/temporary_folder.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;

class CraftedCheckpoint : public testing::Test {
 protected:
  CraftedCheckpoint() {
    config = default_config("logistic-regression");
    config.problem_settings = {{"dimension", 30}, {"points", 40}, {"tensors", 3}, {"batch", 10}};
    config.workers = 2;
    config.steps = 9;
    config.checkpoint_interval = 5;
    config.method = "regtopk";
    config.options.keep = 0.2;
    run({.folder = folder});
    checkpoint = find_checkpoints(folder).at(0);
  }

  void run(const CheckpointPlan& plan) {
    const auto problem = make_problem(config.problem, config.problem_settings, config.workers, config.seed);
    run_threads(config, *problem_workload(*problem), nullptr, plan);
  }

  void write(const std::vector<std::byte>& bytes) {
    std::ofstream(checkpoint + "/rank-1.state", std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  std::string refusal() {
    return message_of<InvalidConfig>([&] { run({.resume = checkpoint}); });
  }

  test::TemporaryFolder own;
  std::string folder = own.path();
  RunConfig config;
  std::string checkpoint;
};

TEST_F(CraftedCheckpoint, SupportThatDoesNotAscendIsRefused) {
  const State sound = read_checkpoint(checkpoint, 1);
  const State crafted = test::with_entry(sound, "method/inner/support", [](test::SavedEntry& entry) {
    auto words = entry.words();
    std::reverse(words.begin(), words.end());
    words.back() = 0x4000'0000;
    entry.set_words(words);
  });
  write(crafted.to_bytes());
  EXPECT_TRUE(contains(refusal(), "support must ascend and stay below")) << refusal();
  write(sound.to_bytes());
  EXPECT_EQ(refusal(), "(no error)");
}

TEST_F(CraftedCheckpoint, SettingsThatDifferAreRefused) {
  config.options.mu = 2.0;
  EXPECT_TRUE(contains(refusal(), "method.mu = 4, this run has 2")) << refusal();
}

TEST_F(CraftedCheckpoint, OneOfTheFirstFormatIsNotCalledDamaged) {
  std::vector<std::byte> bytes{std::byte{'1'}, std::byte{'L'}, std::byte{'C'}, std::byte{'S'}};
  bytes.resize(8);
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const std::byte each : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(each)) * 0x100000001B3;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(hash >> (8 * i)));
  write(bytes);
  const std::string text = refusal();
  EXPECT_TRUE(contains(text, "rank-1.state") && contains(text, "format 1") && !contains(text, "damaged")) << text;
}

}  // namespace
}  // namespace laconic
