// Asynchronous rounds: the schedule under any interleaving, and real workers of different speeds.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "methods/rounds_checks.h"
#include "methods/rounds_schedule.h"
#include "support/support.h"

namespace laconic::test {
namespace {

class PlainCounter final : public SharedCounter {
 public:
  explicit PlainCounter(std::int64_t& value) : value_(value) {}
  std::int64_t fetch_add(std::int64_t amount) override {
    const std::int64_t before = value_;
    value_ += amount;
    return before;
  }

 private:
  std::int64_t& value_;
};

/// Many workers in one thread, of whom a schedule wants nothing but their number and a counter.
class SimulatedGroup final : public Communicator {
 public:
  explicit SimulatedGroup(int workers) : workers_(workers) {}

  int rank() const override { return 0; }
  int size() const override { return workers_; }
  Handle start(const Call&) override { return {}; }
  std::unique_ptr<Communicator> duplicate() override { return nullptr; }
  std::unique_ptr<SharedCounter> make_counter() override { return std::make_unique<PlainCounter>(counter_); }
  void fail(std::string_view) noexcept override {}
  std::string description() const override { return "simulated"; }

 private:
  int workers_;
  std::int64_t counter_ = 0;
};

struct Outcome {
  std::uint64_t steps = 0;
  std::uint64_t rounds = 0;
  bool ended = false;
};

/// Lets workers take turns in a random order until all have ended or nobody can go on. A round needs them all.
Outcome simulate(std::vector<RoundSchedule>& workers, SimulatedGroup& group, std::uint64_t seed, int favourite) {
  std::mt19937_64 random(seed);
  for (RoundSchedule& worker : workers) worker.join(group);
  std::vector<Turn> turns;
  for (RoundSchedule& worker : workers) turns.push_back(worker.next());
  Outcome outcome;
  for (;;) {
    std::vector<std::size_t> steppers;
    std::size_t waiting = 0;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      if (turns[i] == Turn::step) steppers.push_back(i);
      if (turns[i] == Turn::round) ++waiting;
    }
    if (!steppers.empty()) {
      // The favourite steps whenever it can, every other time.
      std::size_t chosen = steppers[random() % steppers.size()];
      const auto fast = static_cast<std::size_t>(favourite);
      if (random() % 2 == 0 && turns[fast] == Turn::step) chosen = fast;
      workers[chosen].count_step();
      ++outcome.steps;
      turns[chosen] = workers[chosen].next();
    } else if (waiting == workers.size()) {
      ++outcome.rounds;
      for (RoundSchedule& worker : workers) worker.count_round();
      // After a round workers take their tickets in any order, and one may be late: it takes its own when others have
      // stepped on.
      std::vector<std::size_t> order(workers.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t i : order) {
        turns[i] = workers[i].next();
        while (turns[i] == Turn::step && random() % 3 != 0) {
          workers[i].count_step();
          ++outcome.steps;
          turns[i] = workers[i].next();
        }
      }
    } else {
      outcome.ended = waiting == 0;
      return outcome;
    }
  }
}

TEST(Schedule, UsesEveryStepTicketOnceUnderAnyInterleaving) {
  for (const int workers : {1, 2, 3, 5, 8}) {
    for (const std::uint64_t period : {1U, 2U, 7U}) {
      for (const std::uint64_t total : {1U, 2U, 6U, 7U, 8U, 14U, 20U}) {
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
          SimulatedGroup group(workers);
          std::vector<RoundSchedule> schedules;
          for (int i = 0; i < workers; ++i) schedules.emplace_back(period, total, true);
          const Outcome outcome = simulate(schedules, group, seed, static_cast<int>(seed) % workers);
          const auto where = testing::Message() << workers << " workers, period " << period << ", total " << total;
          ASSERT_TRUE(outcome.ended) << where;
          ASSERT_EQ(outcome.steps, static_cast<std::uint64_t>(workers) * total) << where;
          ASSERT_EQ(outcome.rounds, (total + period - 1) / period) << where;
        }
      }
    }
  }
}

TEST(Schedule, GoesOnAtARoundEvenWithOtherWorkers) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimulatedGroup group(5);
    std::vector<RoundSchedule> schedules;
    for (int i = 0; i < 5; ++i) schedules.emplace_back(4, 18, true).resume(2, 0);
    const Outcome outcome = simulate(schedules, group, seed, 0);
    ASSERT_TRUE(outcome.ended);
    ASSERT_EQ(outcome.steps, 5U * (18U - 8U));
    ASSERT_EQ(outcome.rounds, 3U);
  }
}

class AsyncRounds : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Table, AsyncRounds, testing::Values("mgrawa", "lgrawa", "easgd", "lsgd", "localsgd"),
                         [](const auto& test) { return test.param; });

TEST_P(AsyncRounds, EndWithEveryStepMade) {
  for (const int ranks : {1, 3, 3, 4}) {
    run_ranks(ranks, [&](Communicator& communicator) { check_async_run(communicator, GetParam()); });
  }
}

/// A worker whose first step lasts until the others have made all other steps of the period makes that one alone, and
/// nobody waits for it before.
TEST_P(AsyncRounds, LetTheOthersMakeASlowWorkersSteps) {
  constexpr std::uint32_t kRanks = 3;
  constexpr std::uint32_t kPeriod = 4;
  std::atomic<std::uint32_t> made_by_others = 0;
  run_ranks(kRanks, [&](Communicator& communicator) {
    const MethodRow& row = method_row(GetParam());
    MethodOptions options = small_options(row);
    options.period = kPeriod;
    options.total_steps = kPeriod;
    options.pace = "async";
    Worker worker(row, options, communicator);
    communicator.barrier().wait();  // everybody has its first ticket
    const bool slow = communicator.rank() == 0;
    std::uint32_t steps = 0;
    for (bool finished = false; !finished; ++steps) {
      while (slow && made_by_others < kRanks * kPeriod - 1) std::this_thread::yield();
      if (!slow) ++made_by_others;
      finished = worker.step(steps).finished;
    }
    if (slow) {
      EXPECT_EQ(steps, 1U);
    }
  });
  EXPECT_EQ(made_by_others, kRanks * kPeriod - 1);
}

TEST_P(AsyncRounds, ResumeAtARound) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    run_ranks(3, [&](Communicator& communicator) { check_async_resume(communicator, GetParam()); });
  }
}

TEST_P(AsyncRounds, OfOneWorkerAreLockstepBitForBit) {
  run_ranks(1, [&](Communicator& communicator) {
    const MethodRow& row = method_row(GetParam());
    MethodOptions options = small_options(row);
    options.total_steps = 10;
    Worker lockstep(row, options, communicator);
    options.pace = "async";
    Worker async(row, options, communicator);
    for (std::uint32_t step = 0; step < 10; ++step) {
      const StepReport expected = lockstep.step(step);
      const StepReport report = async.step(step);
      EXPECT_EQ(report.rounds, expected.rounds);
      EXPECT_EQ(report.finished, expected.finished);
      ASSERT_EQ(std::memcmp(async.model.data(), lockstep.model.data(), async.model.size() * sizeof(float)), 0);
    }
  });
}

TEST_P(AsyncRounds, AreSavedAtARoundOnly) {
  run_ranks(1, [&](Communicator& communicator) {
    const MethodRow& row = method_row(GetParam());
    MethodOptions options = small_options(row);
    options.total_steps = 10;
    options.pace = "async";
    Worker worker(row, options, communicator);
    worker.method->save();  // the start is as good as a round
    for (std::uint32_t step = 0; step < 9; ++step) {
      const bool at_round = worker.step(step).rounds > 0;
      const auto text = message_of<InvalidConfig>([&] { worker.method->save(); });
      EXPECT_EQ(text == "(no error)", at_round) << text;
      EXPECT_TRUE(at_round || contains(text, "at a round")) << text;
    }
    EXPECT_THROW(worker.method->resize(nullptr), InvalidConfig);
  });
}

TEST_P(AsyncRounds, StatesOfDifferentRoundsAreRefused) {
  run_ranks(2, [&](Communicator& communicator) {
    const MethodRow& row = method_row(GetParam());
    for (const char* pace : {"lockstep", "async"}) {
      MethodOptions options = small_options(row);
      options.total_steps = 12;
      options.pace = pace;
      Worker worker(row, options, communicator);
      std::vector<std::byte> saved;
      int rounds = 0;
      worker.method->set_after_round([&](const StepReport&) {
        if (rounds++ == communicator.rank()) saved = worker.method->save().to_bytes();
      });
      communicator.barrier().wait();  // everybody has its first ticket, which is a step's
      for (std::uint32_t step = 0; !worker.step(step).finished;) ++step;
      Worker resumed(row, options, communicator);
      resumed.method->load(State::from_bytes(saved));
      const auto text = message_of<InvalidConfig>([&] { resumed.method->start(resumed.model); });
      EXPECT_TRUE(contains(text, "rank 1") && contains(text, "rounds so far")) << text;
    }
  });
}

/// A worker that fails ends the others, whether they wait in a round or take tickets.
TEST_P(AsyncRounds, ErrorOfOneWorkerEndsTheOthers) {
  run_ranks(3, [&](Communicator& communicator) {
    const MethodRow& row = method_row(GetParam());
    MethodOptions options = small_options(row);
    options.total_steps = 100;
    options.pace = "async";
    Worker worker(row, options, communicator);
    communicator.barrier().wait();
    if (communicator.rank() == 1) {
      std::vector<float> gradient(worker.model.size(), std::nanf(""));
      EXPECT_THROW(worker.method->step({{1, 0, 1}, 0.1F}, worker.model, gradient), InvalidConfig);
      return;
    }
    const auto text = message_of<TransportError>([&] {
      for (std::uint32_t step = 0; step < 100; ++step) worker.step(step);
    });
    EXPECT_TRUE(contains(text, "rank 1") && contains(text, "NaN")) << text;
  });
}

}  // namespace
}  // namespace laconic::test
