// A run under mpirun that loses a rank says so, ends, leaves nothing half-written, and can be gone on with.

#include <signal.h>

#include <algorithm>

#include "tools/mpi_files.h"

namespace laconic::test {
namespace {

std::size_t lines_of(const fs::path& path) {
  const std::string text = text_of_file(path);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::size_t times_said(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

/// One message of the program, whatever mpirun adds.
void expect_said_once(const std::string& said, const std::string& part) {
  EXPECT_EQ(times_said(said, "laconic: "), 1U) << said;
  EXPECT_TRUE(contains(said, part)) << "missing: " << part << "\n" << said;
}

class Faults : public MpiFiles {
 protected:
  /// A run that was cut has only whole files, or parts that are named as such.
  void expect_nothing_half_written(const std::string& run) const {
    EXPECT_EQ(json(run + "/config.json").at("run").at("workers"), kRanks);
    EXPECT_NO_THROW(metrics(run));
    EXPECT_FALSE(fs::exists(file(run + "/result.json")));
    EXPECT_FALSE(fs::exists(file(run + "/model.safetensors")));
    const auto checkpoints = find_checkpoints(file(run + "/checkpoints"));
    EXPECT_FALSE(checkpoints.empty());
    for (const std::string& each : checkpoints) EXPECT_NO_THROW(require_sound_checkpoint(each, kRanks)) << each;
  }

  /// A run that does not end, stopped in its steps on one rank.
  void expect_told_of_stopped(int stopped) {
    MpiJob job = mpi(train_flags("--method topk --steps 1000000 --timeout 3 --eval-interval 1000", "run"), "said");
    ASSERT_TRUE(eventually([&] { return lines_of(file("run/metrics.jsonl")) >= 3 || !job.running(); }));
    ASSERT_TRUE(job.signal(stopped, SIGSTOP)) << job.said();
    EXPECT_EQ(job.wait(), 1) << job.said();
    expect_said_once(job.said(), "did not end within 3000 ms on rank ");
    expect_said_once(job.said(), ": rank " + std::to_string(stopped) + " does not answer; it was stopped");
    EXPECT_TRUE(eventually([&] { return job.ranks_are_gone(); }));
    EXPECT_EQ(json("run/config.json").at("run").at("workers"), kRanks);
    EXPECT_GE(metrics("run").size(), 3U);
  }
};

TEST_F(Faults, StoppedRankIsNamed) { expect_told_of_stopped(2); }

// Rank 0 is the one that prints and writes: another speaks for it.
TEST_F(Faults, StoppedRankZeroIsNamed) { expect_told_of_stopped(0); }

TEST_F(Faults, KilledRunIsWholeAndGoesOn) {
  const std::string flags = "--method topk --steps 60 --eval-interval 10 --checkpoint-interval 20 ";
  MpiJob job = mpi(train_flags(flags + "--compute-seconds 0.06", "run"), "said");
  ASSERT_TRUE(eventually([&] { return fs::exists(checkpoint("run", 20)) || !job.running(); }));
  ASSERT_TRUE(job.signal(1, SIGKILL)) << job.said();
  const int code = job.wait();
  EXPECT_NE(code, 0) << job.said();
  EXPECT_NE(code, -1) << "it hangs: " << job.said();
  EXPECT_TRUE(contains(job.said(), "rank 1")) << job.said();
  EXPECT_TRUE(eventually([&] { return job.ranks_are_gone(); }));
  expect_nothing_half_written("run");

  // Whenever it was killed, let it have been in the middle of writing.
  std::ofstream(file("run/metrics.jsonl"), std::ios::app) << R"({"step": 99, "lo)";
  const std::string partial = checkpoint("run", 40) + ".partial";
  fs::create_directories(partial);
  std::ofstream(partial + "/rank-0.state") << "half";
  std::ofstream(file("run/result.json.tmp12345")) << "{";

  MpiJob resumed = mpi("train --resume" + quoted(file("run")), "resumed");
  ASSERT_EQ(resumed.wait(), 0) << resumed.said();
  EXPECT_FALSE(fs::exists(partial));
  EXPECT_FALSE(fs::exists(file("run/result.json.tmp12345")));
  const Outcome undisturbed = train_threads(flags, "undisturbed");
  ASSERT_EQ(undisturbed.code, 0) << undisturbed.text;
  EXPECT_EQ(metrics("run").size(), 60U);
  expect_same_runs("run", "undisturbed");
  expect_same_checkpoints("run", "undisturbed", 40);
}

TEST_F(Faults, DamagedCheckpointIsRefused) {
  const Outcome threads = train_threads("--method topk --steps 5 --eval-interval 0 --checkpoint-interval 2", "run");
  ASSERT_EQ(threads.code, 0) << threads.text;
  const std::string damaged = checkpoint("run", 4) + "/rank-2.state";
  std::fstream state(damaged, std::ios::binary | std::ios::in | std::ios::out);
  state.seekp(static_cast<std::streamoff>(fs::file_size(damaged) / 2));
  state << "damage";
  state.close();
  const std::string before = text_of_file(file("run/metrics.jsonl"));

  MpiJob refused = mpi("train --resume" + quoted(file("run")), "refused");
  EXPECT_EQ(refused.wait(), 1) << refused.said();
  expect_said_once(refused.said(), damaged + " is damaged: ");
  expect_said_once(refused.said(), "; the one before it is " + checkpoint("run", 2));
  EXPECT_TRUE(eventually([&] { return refused.ranks_are_gone(); }));
  EXPECT_EQ(text_of_file(file("run/metrics.jsonl")), before);

  MpiJob offered = mpi("train --resume" + quoted(checkpoint("run", 2)), "offered");
  EXPECT_EQ(offered.wait(), 0) << offered.said();
  EXPECT_NO_THROW(require_sound_checkpoint(checkpoint("run", 4), kRanks));

  // Only rank 0 looks at all files, so only it finds this; the others must not wait for it.
  fs::copy(checkpoint("run", 4) + "/rank-3.state", checkpoint("run", 4) + "/rank-4.state");
  MpiJob larger = mpi("train --resume" + quoted(file("run")), "larger");
  EXPECT_EQ(larger.wait(), 2) << larger.said();
  expect_said_once(larger.said(), "was written by 5 or more ranks, this run has 4");
}

}  // namespace
}  // namespace laconic::test
