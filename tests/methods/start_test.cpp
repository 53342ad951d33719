// start() opens a method for steps: after it was made, loaded or resized, on every rank, and not twice. Looped over the
// table.

#include <gtest/gtest.h>

#include <algorithm>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr Milliseconds kSoon{5'000};  ///< ranks that do not meet end soon

class EveryStart : public testing::TestWithParam<const MethodRow*> {
 protected:
  const MethodRow& row() const { return *GetParam(); }
  MethodOptions options() const { return small_options(row()); }
  bool is_gradient() const { return row().face == Face::gradient; }
  bool is_psync() const { return std::string(row().name) == "psync"; }
};

std::vector<const MethodRow*> all_rows() {
  std::vector<const MethodRow*> rows;
  for (const MethodRow& row : method_table()) rows.push_back(&row);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Table, EveryStart, testing::ValuesIn(all_rows()),
                         [](const auto& test) { return test_name(test.param->name); });

std::string refusal_of_step(Worker& worker) {
  return message_of<InvalidConfig>([&] { worker.step(9); });
}

std::string refusal_of_start(Worker& worker) {
  return message_of<InvalidConfig>([&] { worker.method->start(worker.model); });
}

TEST_P(EveryStart, ASecondTimeIsRefusedOnAllRanksAndChangesNothing) {
  run_ranks(2, [&](Communicator& communicator) {
    communicator.set_timeout(kSoon);
    Worker worker(row(), options(), communicator);
    worker.step(0);
    const auto memory = worker.method->save().to_bytes();
    const auto model = worker.model;
    const auto text = refusal_of_start(worker);
    EXPECT_TRUE(contains(text, "start() was called already")) << text;
    EXPECT_EQ(worker.model, model);
    EXPECT_EQ(worker.method->save().to_bytes(), memory);
    EXPECT_FALSE(worker.step(1).skipped);
  });
}

TEST_P(EveryStart, IsNeededBeforeTheFirstStepAndAfterLoad) {
  run_ranks(2, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto unstarted = make_model_method(row().name, options(), {}, communicator, place);
    unstarted->register_tensors(small_model());
    std::vector<float> model(size_of(small_model()), 0.5F);
    auto gradient = model;
    const auto early = message_of<InvalidConfig>([&] { unstarted->step({{}, 0.1F}, model, gradient); });
    EXPECT_TRUE(contains(early, "start()")) << early;

    Worker worker(row(), options(), communicator);
    worker.step(0);
    worker.method->load(worker.method->save());
    const auto text = refusal_of_step(worker);
    EXPECT_TRUE(contains(text, "load()") && contains(text, "start()")) << text;
    worker.method->start(worker.model);
    EXPECT_FALSE(worker.step(1).skipped);
  });
}

TEST_P(EveryStart, TellsAllRanksThatOneHasLoadedAndAnotherHasNot) {
  run_ranks(3, [&](Communicator& communicator) {
    communicator.set_timeout(kSoon);
    Worker worker(row(), options(), communicator);
    worker.step(0);
    if (communicator.rank() != 1) worker.method->load(worker.method->save());
    const auto text = refusal_of_start(worker);
    EXPECT_TRUE(contains(text, "rank 1 has start = a second time") && contains(text, "after load")) << text;
  });
}

// What is the same on all ranks by the method's rule: the model of a lifted method, x of DEF, the centre of rounds.
TEST_P(EveryStart, ComparesWhatIsCommonAfterLoad) {
  if (is_psync()) GTEST_SKIP() << "psync's workers have nothing in common";
  run_ranks(3, [&](Communicator& communicator) {
    communicator.set_timeout(kSoon);
    Worker worker(row(), options(), communicator);
    Worker other(row(), options(), communicator);
    for (std::uint32_t step = 0; step < 8; ++step) worker.step(step);
    for (std::uint32_t step = 0; step < 8; ++step) {
      auto gradient = pull_gradient(other.model, communicator.rank(), step + 100);
      other.method->step({{42, step, static_cast<std::uint32_t>(communicator.rank())}, 0.05F, 0.0F}, other.model,
                         gradient);
    }
    // Rank 2 goes on with another run's memory and model.
    Worker& source = communicator.rank() == 2 ? other : worker;
    const State state = source.method->save();
    const auto model = source.model;
    worker.method->load(state);
    worker.model = model;
    const auto text = refusal_of_start(worker);
    EXPECT_TRUE(contains(text, "rank 2") && contains(text, "checksum")) << text;
  });
}

TEST_P(EveryStart, ComparesALiftedModelAfterResize) {
  if (!is_gradient()) GTEST_SKIP() << "resize deals out what is common";
  const auto next_group = thread_communicators(2);
  run_ranks(3, [&](Communicator& communicator) {
    Worker worker(row(), options(), communicator);
    worker.step(0);
    if (communicator.rank() == 2) return worker.method->resize(nullptr);
    Communicator& next = *next_group[static_cast<std::size_t>(communicator.rank())];
    next.set_timeout(kSoon);
    worker.method->resize(&next);
    EXPECT_TRUE(contains(refusal_of_step(worker), "resize()"));
    auto moved = worker.model;
    if (next.rank() == 1) moved[7] += 1.0F;
    const auto text = message_of<InvalidConfig>([&] { worker.method->start(moved); });
    EXPECT_TRUE(contains(text, "rank 1") && contains(text, "checksum of the start point")) << text;
    worker.method->start(worker.model);  // a start that was refused may be made again
    auto gradient = pull_gradient(worker.model, next.rank(), 1);
    worker.method->step({{42, 1, static_cast<std::uint32_t>(next.rank())}, 0.05F, 0.0F}, worker.model, gradient);
    EXPECT_TRUE(same_everywhere(next, worker.model));
  });
}

// A rank has been there since its start, whether or not it has made a step: it is no newcomer.
TEST_P(EveryStart, IsEnoughToHaveBeenThereBeforeAResize) {
  const auto old_group = thread_communicators(2);
  const auto next_group = thread_communicators(3);
  run_ranks(3, [&](Communicator& everyone) {
    Communicator& next = *next_group[static_cast<std::size_t>(everyone.rank())];
    next.set_timeout(kSoon);
    const bool newcomer = everyone.rank() == 0;
    const auto alone = thread_communicators(1);
    Place place({.threads = 1});
    const auto method = make_model_method(
        row().name, options(), {}, newcomer ? *alone[0] : *old_group[static_cast<std::size_t>(everyone.rank() - 1)],
        place);
    method->register_tensors(small_model());
    std::vector<float> model(size_of(small_model()), 0.5F);
    if (!newcomer) method->start(model);
    method->resize(&next);
    method->start(model);
    EXPECT_TRUE(same_everywhere(next, model));
    EXPECT_EQ(std::count(model.begin(), model.end(), 0.5F), static_cast<std::ptrdiff_t>(model.size()));
  });
}

}  // namespace
}  // namespace laconic::test
