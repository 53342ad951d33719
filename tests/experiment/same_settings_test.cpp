// All ranks of a run have the same settings: one that differs is named before the first step.

#include <gtest/gtest.h>

#include "experiment/run.h"
#include "experiment/together.h"
#include "laconic/error.h"
#include "laconic/threads.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::contains;
using test::message_of;

class Steps : public Observer {
 public:
  void on_start(std::uint32_t /*steps*/) override { started = true; }
  void on_step(const StepRecord& /*record*/) override { ++count; }
  bool started = false;
  int count = 0;
};

RunConfig small_run() {
  RunConfig config = default_config("noisy-quadratic");
  config.problem_settings = {{"dimension", 20}};
  config.workers = 3;
  config.steps = 4;
  return config;
}

/// What a run says whose rank 2 has other settings than ranks 0 and 1; every rank says it.
std::string refusal(const std::function<void(RunConfig&)>& change, const CheckpointPlan& plan = {},
                    const CheckpointPlan& other_plan = {}) {
  RunConfig other = small_run();
  change(other);
  const RunConfig config = small_run();
  std::vector<std::string> said(3);
  Steps steps;
  run_ranks(3, [&](Communicator& group) {
    const bool differs = group.rank() == 2;
    Observer silent;
    said[static_cast<std::size_t>(group.rank())] = message_of<InvalidConfig>([&] {
      const RunConfig& mine = differs ? other : config;
      const auto problem = make_problem(mine.problem, mine.problem_settings, mine.workers, mine.seed);
      run_worker(mine, *problem_workload(*problem), group, group.rank() == 0 ? steps : silent,
                 differs ? other_plan : plan);
    });
  });
  EXPECT_FALSE(steps.started) << "a record would have been begun";
  EXPECT_EQ(steps.count, 0);
  EXPECT_EQ(said[1], said[0]);
  EXPECT_EQ(said[2], said[0]);
  return said[0];
}

struct Change {
  const char* name;
  const char* other;
  const char* usual;
  void (*make)(RunConfig&);
};

class EverySetting : public testing::TestWithParam<Change> {};

const Change kChanges[] = {
    {"run.within", "host", "none", [](RunConfig& c) { c.within = RunConfig::kByHostName; }},
    {"run.steps", "9", "4", [](RunConfig& c) { c.steps = 9; }},
    {"run.seed", "5", "1", [](RunConfig& c) { c.seed = 5; }},
    {"run.learning_rate", "0.5", "0.001", [](RunConfig& c) { c.learning_rate = 0.5; }},
    {"run.schedule", "2:0.1", "none", [](RunConfig& c) { c.schedule = {{2, 0.1}}; }},
    {"run.nonfinite", "skip", "error", [](RunConfig& c) { c.nonfinite = NonfinitePolicy::skip; }},
    {"run.eval_interval", "2", "1", [](RunConfig& c) { c.eval_interval = 2; }},
    {"run.adversaries", "1", "0", [](RunConfig& c) { c.adversaries = 1; }},
    {"run.compute_seconds", "0.001", "0", [](RunConfig& c) { c.compute_seconds = 0.001; }},
    {"run.overlap", "false", "true", [](RunConfig& c) { c.overlap = false; }},
    {"run.checkpoint_interval", "2", "0", [](RunConfig& c) { c.checkpoint_interval = 2; }},
    {"run.timeout", "30", "60", [](RunConfig& c) { c.timeout = 30; }},
    {"run.threads", "2", "1", [](RunConfig& c) { c.threads = 2; }},
    {"problem.noise", "3", "100", [](RunConfig& c) { c.problem_settings.emplace_back("noise", 3.0); }},
    {"problem.dimension", "21", "20", [](RunConfig& c) { c.problem_settings = {{"dimension", 21}}; }},
    {"problem.name", "logistic-regression", "noisy-quadratic",
     [](RunConfig& c) {
       c.problem = "logistic-regression";
       c.problem_settings = {};
     }},
    {"method.name", "topk", "sgd", [](RunConfig& c) { c.method = "topk"; }},
    {"optimizer.momentum", "0.5", "0", [](RunConfig& c) { c.optimizer.momentum = 0.5; }},
    {"optimizer.weight_decay", "0.1", "0", [](RunConfig& c) { c.optimizer.weight_decay = 0.1; }},
};

INSTANTIATE_TEST_SUITE_P(Some, EverySetting, testing::ValuesIn(kChanges), [](const auto& test) {
  std::string name = test.param.name;
  name[name.find('.')] = '_';
  return name;
});

TEST_P(EverySetting, ThatDiffersIsNamedOnAllRanks) {
  const Change& change = GetParam();
  const std::string name = change.name;
  EXPECT_EQ(refusal(change.make), "rank 2 has " + name + " = " + change.other + ", rank 0 has " + name + " = " +
                                      change.usual + ": start all ranks with the same settings");
}

TEST(SameSettings, CheckpointToGoOnFromIsComparedToo) {
  const auto alike = [](RunConfig&) {};
  EXPECT_TRUE(contains(refusal(alike, {}, {.resume = "/no/such/step-0000000003"}),
                       "rank 2 has checkpoint to go on from = step-0000000003, rank 0 has checkpoint to go on from = "
                       "none"));
}

// One rank alone finds what is wrong: the others must neither wait for it nor go on.
TEST(Together, ARefusalOfOneRankIsThatOfAll) {
  const auto said_by = [](auto&& body) {
    std::vector<std::string> said(3);
    run_ranks(3, [&](Communicator& group) {
      said[static_cast<std::size_t>(group.rank())] =
          message_of<Error>([&] { succeed_together(group, [&] { body(group.rank()); }); });
      group.barrier().wait();  // nobody has failed the group
    });
    return said;
  };
  const std::vector<std::string> wrong(3, "rank 1 is wrong");
  EXPECT_EQ(said_by([](int rank) {
              if (rank > 0) throw InvalidConfig("rank " + std::to_string(rank) + " is wrong");
            }),
            wrong);
  EXPECT_EQ(said_by([](int rank) {
              if (rank == 1) throw std::runtime_error("rank 1 is wrong");
            }),
            wrong);
  EXPECT_EQ(said_by([](int /*rank*/) {}), std::vector<std::string>(3, "(no error)"));
  run_ranks(2, [&](Communicator& group) {
    EXPECT_THROW(succeed_together(group,
                                  [&] {
                                    if (group.rank() == 1) throw InvalidConfig("a setting");
                                  }),
                 InvalidConfig);
  });
}

}  // namespace
}  // namespace laconic
