// Steps whose tensors arrive one after another, looped over the table: a new row is tested by being there.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/stream_checks.h"
#include "support/one_order.h"
#include "support/support.h"

namespace laconic::test {
namespace {

class EveryRow : public testing::TestWithParam<std::tuple<StreamedRow, int>> {
 protected:
  const StreamedRow& row() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  /// Rows whose every step meets the other ranks.
  bool meets_always() const { return row().row->face == Face::gradient || row().streams; }
};

/// What does not depend on how many ranks there are.
class EveryRowOnce : public EveryRow {};

std::vector<StreamedRow> rows_that_stream() {
  auto rows = streamed_rows();
  std::erase_if(rows, [](const StreamedRow& row) { return !row.streams; });
  return rows;
}

std::string stream_name(const testing::TestParamInfo<std::tuple<StreamedRow, int>>& test) {
  return std::get<0>(test.param).name + "_" + std::to_string(std::get<1>(test.param));
}

INSTANTIATE_TEST_SUITE_P(Stream, EveryRow,
                         testing::Combine(testing::ValuesIn(rows_that_stream()), testing::Values(1, 2, 3, 4)),
                         stream_name);
INSTANTIATE_TEST_SUITE_P(Stream, EveryRowOnce, testing::Combine(testing::ValuesIn(streamed_rows()), testing::Values(3)),
                         stream_name);

TEST_P(EveryRow, DoesNotDependOnTheArrival) {
  run_ranks(ranks(), [&](Communicator& communicator) { check_arrivals(communicator, row()); });
}

TEST_P(EveryRowOnce, DoesNotDependOnTheArrival) {
  if (row().streams) GTEST_SKIP() << "tested above";
  run_ranks(ranks(), [&](Communicator& communicator) { check_arrivals(communicator, row()); });
}

TEST_P(EveryRowOnce, ResumesBetweenSteps) {
  run_ranks(ranks(), [&](Communicator& communicator) { check_streamed_resume(communicator, row()); });
}

TEST_P(EveryRow, ExchangesWhatHasArrivedBeforeTheLastTensor) {
  run_ranks(ranks(), [&](Communicator& communicator) { check_early_exchange(communicator, row()); });
}

TEST_P(EveryRowOnce, NamesOrSkipsANonfiniteValue) {
  if (!meets_always()) GTEST_SKIP() << "in a local step only the worker concerned knows";
  run_ranks(ranks(), [&](Communicator& communicator) { check_streamed_nonfinite(communicator, row()); });
}

TEST_P(EveryRowOnce, AllocatesNothingAfterTheFirstSteps) {
  run_ranks(ranks(), [&](Communicator& communicator) {
    StreamedWorker worker(row(), communicator, 1);
    const auto step = [&](std::uint32_t number) {
      worker.method->begin_step(worker.input(number), worker.model);
      for (auto tensor = static_cast<std::uint32_t>(worker.apart.size()); tensor-- > 0;) {
        auto& values = worker.apart[tensor];
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7 + number) % 13) - 6.0F;
        const TensorPart part{tensor, View<float>(values)};
        worker.method->add({&part, 1});
      }
      worker.method->finish_step();
    };
    for (std::uint32_t number = 0; number < 9; ++number) step(number);
    communicator.barrier().wait();
    const auto before = allocation_count();
    communicator.barrier().wait();
    for (std::uint32_t number = 9; number < 16; ++number) step(number);
    communicator.barrier().wait();
    EXPECT_EQ(allocation_count(), before);
    communicator.barrier().wait();
  });
}

/// All chunks share a channel, whose ranks would be refused if the order of their calls differed.
TEST_P(EveryRow, FollowsOneScheduleWhereDuplicatesDoNotOverlap) {
  std::vector<CallLog> logs(static_cast<std::size_t>(ranks()));
  run_ranks(ranks(), [&](Communicator& communicator) {
    CallLog& log = logs[static_cast<std::size_t>(communicator.rank())];
    OneOrder ordered(communicator.duplicate(), log);
    check_arrivals(ordered, row());
    EXPECT_EQ(log.communicators, 4) << "one per worker that streams";
    check_streamed_resume(ordered, row());
    if (meets_always()) check_streamed_nonfinite(ordered, row());
  });
  for (const CallLog& log : logs) EXPECT_TRUE(log.calls == logs.front().calls);
}

/// In a schedule a chunk goes on when the next one has arrived, not only at the end of the step.
TEST(Stream, AScheduleGoesOnWhileTensorsArrive) {
  const StreamedRow row{&method_row("signsgd"), {}, true, "signsgd"};
  run_ranks(3, [&](Communicator& communicator) {
    CallLog log;
    OneOrder ordered(communicator.duplicate(), log);
    StreamedWorker worker(row, ordered, 1);
    worker.method->begin_step(worker.input(0), worker.model);
    std::uint64_t arrived = 0;
    for (auto tensor = static_cast<std::uint32_t>(worker.apart.size()); tensor-- > 1;) {
      const TensorPart part{tensor, View<float>(worker.apart[tensor])};
      worker.method->add({&part, 1});
      arrived += part.values.size();
    }
    // The newest chunk has taken two of a vote's three stages; the last one waits for the next chunk.
    const std::uint64_t early = arrived - worker.apart[1].size();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (worker.method->poll() < early && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    communicator.barrier().wait();  // every rank was done before any rank has its last tensor
    EXPECT_EQ(worker.method->poll(), early);
    const TensorPart last{0, View<float>(worker.apart[0])};
    worker.method->add({&last, 1});
    worker.method->finish_step();
  });
}

/// A chunk that waits for its turn tells of a failure all the same.
TEST(Stream, AScheduleSeesAFailureWhileTensorsAreMissing) {
  const StreamedRow row{&method_row("signsgd"), {}, true, "signsgd"};
  run_ranks(2, [&](Communicator& communicator) {
    CallLog log;
    OneOrder ordered(communicator.duplicate(), log);
    StreamedWorker worker(row, ordered, 1);
    worker.method->begin_step(worker.input(0), worker.model);
    const auto last = static_cast<std::uint32_t>(worker.apart.size()) - 1;
    const TensorPart part{last, View<float>(worker.apart[last])};
    if (communicator.rank() == 1) {
      worker.method->add({&part, 1});  // before rank 0's: it does not come to the second of the three stages
      communicator.barrier().wait();
      communicator.barrier().wait();
      return ordered.fail("it was told to");
    }
    communicator.barrier().wait();
    worker.method->add({&part, 1});
    while (log.calls.back().second != CallKind::all_gather_varying) worker.method->poll();
    communicator.barrier().wait();
    const auto poll_for_a_while = [&] {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (std::chrono::steady_clock::now() < end) worker.method->poll();
    };
    EXPECT_TRUE(contains(message_of<TransportError>(poll_for_a_while), "it was told to"));
  });
}

/// A rank that follows a schedule does not fit ranks that do not.
TEST(Stream, RanksAgreeOnWhetherDuplicatesOverlap) {
  run_ranks(3, [](Communicator& communicator) {
    CallLog log;
    auto own = communicator.duplicate();
    if (communicator.rank() == 2) own = std::make_unique<OneOrder>(std::move(own), log);
    Place place({.threads = 1});
    const auto method = make_method("signsgd", {}, *own, place);
    const auto text = message_of<InvalidConfig>([&] { method->register_tensors(streamed_model()); });
    EXPECT_TRUE(contains(text, "rank 2") && contains(text, "the engine's groups")) << text;
  });
}

TEST(Stream, AGradientMethodsPartsReceiveTheAggregateWhereTheyLie) {
  run_ranks(3, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto tensors = streamed_model();
    const auto whole = make_method("fp16", {}, communicator, place);
    const auto parts = make_method("fp16", {}, communicator, place);
    whole->register_tensors(tensors);
    parts->set_chunk_entries(100);
    parts->register_tensors(tensors);
    const StepKey key{1, 0, static_cast<std::uint32_t>(communicator.rank())};
    auto flat = normal_values(size_of(tensors), static_cast<std::uint64_t>(communicator.rank()));
    std::vector<std::vector<float>> apart;
    std::size_t offset = 0;
    for (const Tensor& tensor : tensors) {
      const auto* first = flat.data() + offset;
      apart.emplace_back(first, first + tensor.size);
      offset += tensor.size;
    }
    parts->begin(key);
    for (std::uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
      const TensorPart part{tensor, View<float>(apart[tensor])};
      parts->add({&part, 1});
    }
    parts->finish();
    whole->reduce(key, flat);
    std::vector<float> joined;
    for (const auto& part : apart) joined.insert(joined.end(), part.begin(), part.end());
    EXPECT_TRUE(joined == flat);
  });
}

TEST(Stream, AnEnginesSumNamesTheTensorToo) {
  const StreamedRow row{&method_row("sgd"), {.order = "engine"}, true, "engine"};
  run_ranks(3, [&](Communicator& communicator) { check_streamed_nonfinite(communicator, row); });
}

TEST(Stream, FollowsTheGroupWhenRanksLeave) {
  const auto groups = thread_communicators(2);
  run_ranks(3, [&](Communicator& communicator) {
    const auto rows = streamed_rows();
    const auto row = std::find_if(rows.begin(), rows.end(), [](const auto& each) { return each.name == "signum"; });
    StreamedWorker worker(*row, communicator, 100);
    worker.step(0, worker.gradient(0), Arrival::backward_apart);
    const int rank = communicator.rank();
    if (rank == 2) return worker.method->resize(nullptr);
    worker.method->resize(groups[static_cast<std::size_t>(rank)].get());
    worker.method->start(worker.model);
    StepInput input = worker.input(1);
    auto gradient = worker.gradient(1);
    worker.method->step(input, worker.model, gradient);
    EXPECT_TRUE(same_everywhere(*groups[static_cast<std::size_t>(rank)], worker.model));
  });
}

TEST(Stream, RefusalsNameWhatIsWrong) {
  run_ranks(1, [](Communicator& communicator) {
    StreamedWorker worker(streamed_rows().front(), communicator, 100);
    ModelMethod& method = *worker.method;
    const TensorPart first{0, View<float>(worker.apart[0])};
    const TensorPart wrong{1, View<float>(worker.apart[0])};
    const TensorPart unknown{10, View<float>(worker.apart[0])};
    const auto of = [](auto&& body) { return message_of<InvalidConfig>(body); };
    EXPECT_TRUE(contains(of([&] { method.add({&first, 1}); }), "add() before begin_step()"));
    EXPECT_TRUE(contains(of([&] { method.finish_step(); }), "finish_step() before begin_step()"));
    EXPECT_TRUE(contains(of([&] { method.set_chunk_entries(5); }), "after register_tensors()"));
    method.begin_step(worker.input(0), worker.model);
    EXPECT_TRUE(contains(of([&] { method.begin_step(worker.input(0), worker.model); }), "finish it first"));
    method.add({&first, 1});
    EXPECT_TRUE(contains(of([&] { method.add({&first, 1}); }), "tensor first was added twice"));
    EXPECT_TRUE(contains(of([&] { method.add({&wrong, 1}); }), "a.weight"));
    EXPECT_TRUE(contains(of([&] { method.add({&unknown, 1}); }), "tensor 10 was added, there are 10"));
    EXPECT_TRUE(contains(of([&] { method.finish_step(); }), "a.weight did not arrive"));
    EXPECT_TRUE(contains(of([&] { method.save(); }), "save() in the middle of a step"));
    EXPECT_TRUE(contains(of([&] { method.resize(nullptr); }), "resize() in the middle of a step"));
  });
}

/// A list with a part that is refused changes nothing: its good parts have not arrived either.
void add_refused(const std::function<void(std::span<const TensorPart>)>& add, std::span<const TensorPart> good) {
  const TensorPart unknown{1'000, good[0].values};
  const TensorPart wrong{good[0].tensor + 1, good[0].values};
  for (const TensorPart& bad : {unknown, wrong, good[0]}) {
    const std::vector<TensorPart> parts{good[0], bad};
    EXPECT_THROW(add(parts), InvalidConfig) << "tensor " << bad.tensor;
  }
  add(good);
  const std::vector<TensorPart> again{{good[0].tensor + 1, View<float>()}, good[0]};
  EXPECT_THROW(add(again), InvalidConfig);
}

TEST_P(EveryRowOnce, TakesAListOfPartsWholeOrNotAtAll) {
  run_ranks(ranks(), [&](Communicator& communicator) {
    StreamedWorker whole(row(), communicator, 100);
    StreamedWorker parts(row(), communicator, 100);
    for (std::uint32_t step = 0; step < 4; ++step) {
      const auto gradient = whole.gradient(step);
      auto flat = gradient;
      whole.step(step, gradient, Arrival::flat);
      parts.method->begin_step(parts.input(step), parts.model);
      const auto add = [&](std::span<const TensorPart> some) { parts.method->add(some); };
      std::uint64_t offset = 0;
      for (std::uint32_t tensor = 0; tensor < parts.apart.size(); ++tensor) {
        const TensorPart part{tensor, View<float>(flat).sub(offset, parts.apart[tensor].size())};
        offset += part.values.size();
        if (tensor == 0) add_refused(add, {&part, 1});
        if (tensor > 0) add({&part, 1});
      }
      parts.method->finish_step();
      ASSERT_TRUE(parts.model == whole.model) << "step " << step;
    }
  });
}

TEST(Stream, AGradientMethodTakesAListOfPartsWholeOrNotAtAll) {
  run_ranks(2, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method("topk", {.keep = 0.1}, communicator, place);
    const std::vector<Tensor> tensors{{"first", 40}, {"second", 30}};
    method->register_tensors(tensors);
    std::vector<float> flat(70, 1.0F);
    method->begin({1, 0, static_cast<std::uint32_t>(communicator.rank())});
    const auto add = [&](std::span<const TensorPart> some) { method->add(some); };
    const TensorPart first{0, View<float>(flat).sub(0, 40)};
    add_refused(add, {&first, 1});
    const TensorPart second{1, View<float>(flat).sub(40, 30)};
    add({&second, 1});
    method->finish();
    EXPECT_EQ(std::count(flat.begin(), flat.end(), 1.0F), 7);
  });
}

TEST(Stream, RanksWithOtherChunksAreToldWhere) {
  run_ranks(2, [](Communicator& communicator) {
    const auto text = message_of<InvalidConfig>(
        [&] { StreamedWorker(streamed_rows().front(), communicator, communicator.rank() == 1 ? 100 : 200); });
    EXPECT_TRUE(contains(text, "entries of a chunk") && contains(text, "rank 1")) << text;
  });
}

}  // namespace
}  // namespace laconic::test
