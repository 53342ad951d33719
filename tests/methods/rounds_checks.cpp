#include "methods/rounds_checks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "laconic/error.h"
#include "methods/harness.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr std::uint32_t kPeriod = 4;

MethodOptions async_options(const std::string& method, std::uint32_t total) {
  MethodOptions options{.total_steps = total, .period = kPeriod, .pace = "async"};
  if (method.ends_with("grawa")) options.score = "local";
  if (total % 2 == 1) options.keep = 0.25, options.values = "sign";
  return options;
}

/// A worker of an asynchronous run, which counts what it did. Rank 0 is the slow one, which hosts the counter.
struct AsyncWorker {
  AsyncWorker(const std::string& name, std::uint32_t total, Communicator& the_communicator)
      : communicator(the_communicator),
        method(make_model_method(name, async_options(name, total), {.momentum = 0.9, .nesterov = true}, communicator,
                                 place)),
        model(size_of(small_model()), 0.5F) {
    method->register_tensors(small_model());
  }

  void note(const StepReport& report) {
    rounds += report.rounds;
    finished = report.finished;
  }

  void start() { note(method->start(model)); }

  /// Steps until that many rounds were joined, or to the end.
  void run(std::uint32_t until_round = ~0U) {
    const auto pause = std::chrono::microseconds(communicator.rank() == 0 ? 4'000 : 200);
    while (!finished && rounds < until_round) {
      auto gradient = pull_gradient(model, communicator.rank(), steps);
      std::this_thread::sleep_for(pause);
      ++steps;
      const StepKey key{42, steps, static_cast<std::uint32_t>(communicator.rank())};
      note(method->step({key, 0.02F, static_cast<float>(steps)}, model, gradient));
    }
  }

  std::vector<float> centre() const {
    std::vector<float> values(model.size());
    method->save().get("centre", values);
    return values;
  }

  Communicator& communicator;
  Place place{{.threads = 1}};
  std::unique_ptr<ModelMethod> method;
  std::vector<float> model;
  std::uint32_t steps = 0;
  std::uint32_t rounds = 0;
  bool finished = false;
};

std::uint32_t sum_of(Communicator& communicator, std::uint32_t mine) {
  std::vector<std::uint32_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(as_bytes(View<const std::uint32_t>(&mine, 1)), as_writable_bytes(View<std::uint32_t>(all)))
      .wait();
  return std::accumulate(all.begin(), all.end(), 0U);
}

void expect_ended_well(AsyncWorker& worker) {
  EXPECT_TRUE(worker.finished);
  for (const float value : worker.model) ASSERT_TRUE(std::isfinite(value));
  EXPECT_TRUE(same_everywhere(worker.communicator, worker.centre()));
  std::vector<float> out(worker.model.size());
  worker.method->read_out(worker.model, out);
  EXPECT_TRUE(same_everywhere(worker.communicator, out));
}

}  // namespace

void check_async_run(Communicator& communicator, const std::string& method) {
  const auto workers = static_cast<std::uint32_t>(communicator.size());
  // A whole number of periods, one more, one less, and less than a period.
  for (const std::uint32_t total : {12U, 13U, 11U, 3U}) {
    AsyncWorker worker(method, total, communicator);
    worker.start();
    worker.run();
    expect_ended_well(worker);
    EXPECT_EQ(worker.rounds, (total + kPeriod - 1) / kPeriod) << "total " << total;
    EXPECT_EQ(sum_of(communicator, worker.steps), workers * total) << "total " << total;
    std::vector<float> gradient(worker.model.size());
    EXPECT_THROW(worker.method->step({{}, 0.1F}, worker.model, gradient), InvalidConfig);
  }
}

void check_async_resume(Communicator& communicator, const std::string& method) {
  const auto workers = static_cast<std::uint32_t>(communicator.size());
  constexpr std::uint32_t kTotal = 18;
  constexpr std::uint32_t kRounds = 5;
  constexpr std::uint32_t kCut = 2;

  AsyncWorker first(method, kTotal, communicator);
  first.start();
  first.run(kCut);
  EXPECT_EQ(first.rounds, kCut);
  const auto saved = first.method->save().to_bytes();
  const auto model = first.model;
  EXPECT_EQ(sum_of(communicator, first.steps), kCut * kPeriod * workers);  // also the barrier that saving asks for

  // One run goes on.
  first.run();
  expect_ended_well(first);
  EXPECT_EQ(first.rounds, kRounds);
  EXPECT_EQ(sum_of(communicator, first.steps), workers * kTotal);

  // Another takes up from what was saved, though it had started.
  AsyncWorker second(method, kTotal, communicator);
  second.start();
  second.rounds = 0;
  second.method->load(State::from_bytes(saved));
  second.model = model;
  std::vector<float> gradient(model.size());
  EXPECT_THROW(second.method->step({{}, 0.1F}, second.model, gradient), InvalidConfig);
  second.start();
  second.run();
  expect_ended_well(second);
  EXPECT_EQ(second.rounds, kRounds - kCut);
  EXPECT_EQ(sum_of(communicator, second.steps), workers * (kTotal - kCut * kPeriod));
}

void check_lockstep_resume(Communicator& communicator, const std::string& method) {
  const MethodRow& row = method_row(method);
  const OptimizerOptions optimizer{.momentum = 0.9, .nesterov = true};
  for (const std::uint32_t cut : {3U, 4U}) {
    Worker straight(row, small_options(row), communicator, optimizer);
    std::vector<std::byte> saved;
    std::vector<float> model;
    for (std::uint32_t step = 0; step < 10; ++step) {
      if (step == cut) {
        saved = straight.method->save().to_bytes();
        model = straight.model;
      }
      straight.step(step);
    }
    Worker resumed(row, small_options(row), communicator, optimizer);
    resumed.method->load(State::from_bytes(saved));
    resumed.model = model;
    resumed.method->start(resumed.model);
    ASSERT_EQ(resumed.model, model);
    for (std::uint32_t step = cut; step < 10; ++step) resumed.step(step);
    EXPECT_EQ(std::memcmp(resumed.model.data(), straight.model.data(), model.size() * sizeof(float)), 0);
    EXPECT_EQ(resumed.method->save().to_bytes(), straight.method->save().to_bytes());
  }
}

}  // namespace laconic::test
