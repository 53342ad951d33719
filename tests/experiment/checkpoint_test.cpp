// Checkpoints: a run that goes on from one ends as if it had never stopped, and a damaged one is refused by name.

#include "experiment/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "experiment/run.h"
#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/table.h"
#include "support/method_names.h"
#include "support/support.h"
#include "support/temporary_folder.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;
using test::TemporaryFolder;

RunConfig small_run(const std::string& method) {
  RunConfig config = default_config("logistic-regression");
  config.problem_settings = {{"dimension", 30}, {"points", 40}, {"tensors", 3}, {"batch", 10}};
  config.workers = 3;
  config.steps = 20;
  config.learning_rate = 0.1;
  config.optimizer.momentum = method == "adam" ? 0.0 : 0.9;
  config.method = method;
  const MethodRow& row = method_row(method);
  for (const Parameter& parameter : row.parameters) {
    if (parameter.name == std::string("keep")) config.options.keep = 0.2;
    if (parameter.name == std::string("ratio")) config.options.ratio = 4;
    if (parameter.name == std::string("period")) config.options.period = 4;
  }
  return config;
}

std::vector<RunResult> run(const RunConfig& config, const CheckpointPlan& plan, Observer* observer = nullptr) {
  const auto problem = make_problem(config.problem, config.problem_settings, config.workers, config.seed);
  return run_threads(config, *problem_workload(*problem), observer, plan);
}

/// Whether a run has come as far as its first step, where a record of it would begin.
class Beginning : public Observer {
 public:
  void on_start(std::uint32_t made) override { steps = made; }
  std::optional<std::uint32_t> steps;
};

class EveryMethod : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Table, EveryMethod, testing::ValuesIn(test::method_names()),
                         [](const auto& row) { return test::test_name(row.param); });

void expect_to_go_on(RunConfig config) {
  config.checkpoint_interval = 7;
  const TemporaryFolder folder;
  const auto straight = run(config, {.folder = folder.path()});
  const auto found = find_checkpoints(folder.path());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found.front().ends_with("step-0000000014")) << found.front();
  for (const std::string& checkpoint : found) {
    require_sound_checkpoint(checkpoint, config.workers);
    const auto resumed = run(config, {.resume = checkpoint});
    for (std::size_t rank = 0; rank < straight.size(); ++rank) {
      EXPECT_EQ(resumed[rank].model, straight[rank].model);
      EXPECT_EQ(resumed[rank].worker_model, straight[rank].worker_model);
      EXPECT_EQ(resumed[rank].loss, straight[rank].loss);
      EXPECT_EQ(resumed[rank].steps, straight[rank].steps);
      EXPECT_EQ(resumed[rank].rounds, straight[rank].rounds);
      EXPECT_EQ(resumed[rank].mean_bits, straight[rank].mean_bits);
      EXPECT_EQ(resumed[rank].sent_by_rank, straight[rank].sent_by_rank);
      EXPECT_EQ(resumed[rank].inside_sent_by_rank, straight[rank].inside_sent_by_rank);
      EXPECT_EQ(resumed[rank].traffic.payload_bytes, straight[rank].traffic.payload_bytes);
    }
  }
}

TEST_P(EveryMethod, GoesOnBitForBit) { expect_to_go_on(small_run(GetParam())); }

TEST_P(EveryMethod, GoesOnBitForBitOnTwoLevels) {
  RunConfig config = small_run(GetParam());
  config.workers = 4;
  config.within = 2;
  if (method_row(GetParam()).face == Face::gradient) return expect_to_go_on(config);
  const auto text = message_of<InvalidConfig>([&] { run(config, {}); });
  EXPECT_TRUE(contains(text, GetParam() + " is a model method, and two levels are for gradient methods")) << text;
}

TEST(Checkpoint, OfAnAsynchronousRunLosesNoStep) {
  RunConfig config = small_run("mgrawa");
  config.options.pace = "async";
  config.options.score = "local";
  config.checkpoint_interval = 6;
  const TemporaryFolder folder;
  run(config, {.folder = folder.path()});
  const auto found = find_checkpoints(folder.path());
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(found.front().ends_with("step-0000000012"))
      << found.front();  // 6 falls in the second period, 12 ends the third
  const auto resumed = run(config, {.resume = found.front()});
  std::uint32_t steps = 0;
  for (const RunResult& result : resumed) {
    steps += result.steps;
    EXPECT_EQ(result.rounds, 5U);
  }
  EXPECT_EQ(steps, 3U * 20U);
}

/// Files of this process get no longer while it lives, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }

 private:
  rlimit before_{};
  void (*signal_)(int);
};

TEST(Checkpoint, ThatCouldNotBeWrittenLeavesNothingAndTheOneBeforeIt) {
  const TemporaryFolder folder;
  const std::vector<float> long_one(100'000);
  const auto write = [&](std::uint32_t step) {
    run_ranks(3, [&](Communicator& communicator) {
      State state;
      if (communicator.rank() == 1) state.put("values", View<const float>(long_one));
      write_checkpoint(folder.path(), step, std::move(state), communicator);
    });
  };
  write(4);
  const FullDisk full(100'000);
  for (const std::uint32_t step : {4U, 5U}) {
    const std::string told = message_of<Error>([&] { write(step); });
    EXPECT_TRUE(contains(told, "rank-1.state: File too large")) << told;
  }
  const auto found = find_checkpoints(folder.path());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NO_THROW(require_sound_checkpoint(found.front(), 3));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1) << "something was left";
}

class Damaged : public testing::Test {
 protected:
  Damaged() {
    config.checkpoint_interval = 8;
    run(config, {.folder = folder.path()});
    found = find_checkpoints(folder.path());
  }
  std::string error() {
    return message_of<Error>([&] { run(config, {.resume = found.at(0)}); });
  }
  /// Every rank's file has the same size and entries then.
  void run_again_with_sgd() {
    config.method = "sgd";
    config.options = {};
    fs::remove_all(folder.path());
    run(config, {.folder = folder.path()});
  }
  RunConfig config = small_run("topk");
  TemporaryFolder folder;
  std::vector<std::string> found;
};

TEST_F(Damaged, FlippedByteIsRefusedAndTheOneBeforeOffered) {
  const std::string file = found.at(0) + "/rank-1.state";
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(200);
  stream.put('\x5a');
  stream.close();
  const auto text = error();
  EXPECT_TRUE(contains(text, file) && contains(text, "damaged") && contains(text, found.at(1))) << text;
  EXPECT_EQ(message_of<Error>([&] { require_sound_checkpoint(found.at(0), 3); }), text);
  run(config, {.resume = found.at(1)});
}

TEST_F(Damaged, OnlyAWholeOneIsOffered) {
  const std::string oldest = folder.path() + "/step-0000000001";
  fs::copy(found.at(1), oldest);
  for (const std::string& each : found) fs::resize_file(each + "/rank-1.state", 100);
  EXPECT_TRUE(contains(error(), "the one before it is " + oldest)) << error();
  fs::remove(oldest + "/rank-2.state");
  const auto text = message_of<Error>([&] { require_sound_checkpoint(found.at(0), 3); });
  EXPECT_TRUE(contains(text, found.at(0) + "/rank-1.state is damaged")) << text;
  EXPECT_TRUE(contains(text, "no complete checkpoint")) << text;
}

TEST_F(Damaged, CutFileIsRefused) {
  fs::resize_file(found.at(0) + "/rank-2.state", 100);
  EXPECT_TRUE(contains(error(), "rank-2.state is damaged")) << error();
}

TEST_F(Damaged, MissingFileIsRefused) {
  fs::remove(found.at(0) + "/rank-0.state");
  EXPECT_TRUE(contains(error(), "cannot read") && contains(error(), found.at(1))) << error();
}

TEST_F(Damaged, FolderInPlaceOfAFileIsRefused) {
  fs::remove(found.at(0) + "/rank-0.state");
  fs::create_directory(found.at(0) + "/rank-0.state");
  EXPECT_TRUE(contains(error(), "cannot read") && contains(error(), found.at(1))) << error();
}

// Each file by itself is sound.
TEST_F(Damaged, FilesOfDifferentStepsAreRefused) {
  run_again_with_sgd();
  fs::copy_file(found.at(1) + "/rank-1.state", found.at(0) + "/rank-1.state", fs::copy_options::overwrite_existing);
  const auto text = message_of<Error>([&] { require_sound_checkpoint(found.at(0), 3); });
  EXPECT_TRUE(contains(text, "rank-1.state is of step 8, rank 0's of step 16") && contains(text, found.at(1))) << text;
}

TEST_F(Damaged, AnotherRanksFileIsRefused) {
  run_again_with_sgd();
  fs::copy_file(found.at(0) + "/rank-2.state", found.at(0) + "/rank-1.state", fs::copy_options::overwrite_existing);
  EXPECT_TRUE(contains(error(), "rank-1.state is the file of rank 2")) << error();
}

TEST_F(Damaged, AnotherNumberOfRanksIsRefused) {
  EXPECT_TRUE(
      contains(message_of<InvalidConfig>([&] { require_sound_checkpoint(found.at(0), 2); }), "3 or more ranks"));
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { require_sound_checkpoint(found.at(0), 4); }),
                       "was written by 3 ranks, this run has 4"));
}

TEST_F(Damaged, AnotherMethodsIsRefused) {
  config = small_run("regtopk");
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { run(config, {.resume = found.at(0)}); }), "topk"));
}

TEST_F(Damaged, OneOfARunWithOtherSettingsIsRefused) {
  const auto refusal = [&](const std::function<void(RunConfig&)>& change) {
    RunConfig other = config;
    change(other);
    Beginning beginning;
    const auto text = message_of<InvalidConfig>([&] { run(other, {.resume = found.at(0)}, &beginning); });
    EXPECT_FALSE(beginning.steps) << "the record would have been cut";
    EXPECT_TRUE(contains(text, found.at(0) + " is of a run with ") && contains(text, "start a new run")) << text;
    return text;
  };
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.seed = 2; }), "run.seed = 1, this run has 2"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.steps = 30; }), "run.steps = 20, this run has 30"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.options.keep = 0.25; }), "method.keep = 0.2, this run has 0.25"));
  EXPECT_TRUE(
      contains(refusal([](RunConfig& c) { c.schedule = {{9, 0.5}}; }), "run.schedule = none, this run has 9:0.5"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.optimizer.momentum = 0.5; }),
                       "optimizer.momentum = 0.9, this run has 0.5"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.problem_settings.emplace_back("ridge", 0.5); }),
                       "problem.ridge = 0.01, this run has 0.5"));
}

TEST_F(Damaged, OneGoesOnWithOtherThreadsAndTimeouts) {
  const auto straight = run(config, {.resume = found.at(0)});
  config.threads = 2;
  config.timeout = 30;
  config.checkpoint_interval = 0;
  Beginning beginning;
  EXPECT_EQ(run(config, {.resume = found.at(0)}, &beginning).front().model, straight.front().model);
  EXPECT_EQ(beginning.steps, 16U);
}

// Rank 0, which keeps the record, has nothing to complain about.
TEST_F(Damaged, FileOfOneRankStopsAllBeforeTheRecord) {
  fs::resize_file(found.at(0) + "/rank-2.state", 100);
  Beginning beginning;
  const auto text = message_of<Error>([&] { run(config, {.resume = found.at(0)}, &beginning); });
  EXPECT_TRUE(contains(text, "rank-2.state is damaged")) << text;
  EXPECT_FALSE(beginning.steps);
}

class Rewritten : public Damaged {
 protected:
  /// A rank's file anew, its checksum redone, with some of its parts and other counts.
  void rewrite(int rank, const std::vector<std::string>& parts, std::optional<double> steps) {
    const std::string file = found.at(0) + "/rank-" + std::to_string(rank) + ".state";
    const State state = read_checkpoint(found.at(0), rank);
    State made;
    std::vector<float> model(state.size("model"));
    state.get("model", View<float>(model));
    made.put("model", View<const float>(model));
    for (const std::string& part : parts) made.put(part, state.nested(part));
    if (steps) made.put("counts/steps", *steps);
    const auto bytes = made.to_bytes();
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
};

TEST_F(Rewritten, OneWithoutSettingsIsOfAnEarlierVersion) {
  for (int rank = 0; rank < 3; ++rank) rewrite(rank, {"method", "learner", "counts"}, std::nullopt);
  Beginning beginning;
  run(config, {.resume = found.at(0)}, &beginning);
  EXPECT_EQ(beginning.steps, 16U);
}

TEST_F(Rewritten, CountsThatAreNoneAreRefused) {
  for (const double steps : {-1.0, 5e9, std::numeric_limits<double>::quiet_NaN()}) {
    run_again_with_sgd();
    rewrite(1, {"method", "learner"}, steps);
    const auto text = message_of<InvalidConfig>([&] { run(config, {.resume = found.at(0)}); });
    EXPECT_TRUE(contains(text, found.at(0) + ", rank 1: saved count of steps must be in [0, 4294967295]")) << text;
  }
}

// A folder may hold what others put there.
TEST_F(Damaged, OnlyCheckpointsAreRemoved) {
  const std::vector<std::string> others{"notes", "step-best", "step-0000000001", "step-00000000160", "step-000000001",
                                        "download.partial", "step-1.partial"};
  for (const std::string& name : others) fs::create_directories(folder.path() + "/" + name + "/theirs");
  EXPECT_EQ(find_checkpoints(folder.path()), found);
  run(config, {.folder = folder.path(), .resume = found.at(1)});
  fs::create_directories(folder.path() + "/step-0000000019.partial");
  remove_checkpoints(folder.path());
  std::size_t left = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) left += entry.is_directory() ? 1 : 0;
  EXPECT_EQ(left, others.size());
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder.path() + "/" + name + "/theirs")) << name;
  // Where one has the name of the next checkpoint, nothing is lost either.
  fs::rename(folder.path() + "/notes", found.at(1));
  const auto text = message_of<Error>([&] { run(config, {.folder = folder.path()}); });
  EXPECT_TRUE(contains(text, found.at(1) + " exists and is not a checkpoint")) << text;
  EXPECT_TRUE(fs::exists(found.at(1) + "/theirs"));
}

TEST_F(Damaged, OneIsReplacedAsAWholeWhateverWasCutBefore) {
  fs::resize_file(found.at(0) + "/rank-2.state", 100);
  fs::create_directories(found.at(0) + ".replaced.partial/rank-0.state");
  run(config, {.folder = folder.path(), .resume = found.at(1)});
  EXPECT_EQ(find_checkpoints(folder.path()), found);
  EXPECT_NO_THROW(require_sound_checkpoint(found.at(0), 3));
  EXPECT_FALSE(fs::exists(found.at(0) + ".replaced.partial"));
}

TEST_F(Damaged, WriteThatWasCutIsNoCheckpoint) {
  fs::create_directories(folder.path() + "/step-0000000019.partial");
  EXPECT_EQ(find_checkpoints(folder.path()), found);
}

}  // namespace
}  // namespace laconic
