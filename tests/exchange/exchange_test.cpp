#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "exchange/checks.h"
#include "exchange/checks_list.h"
#include "exchange/dense_sum.h"
#include "exchange/model.h"
#include "exchange/packed_vote.h"
#include "exchange/quantized_sum.h"
#include "exchange/sparse_borders.h"
#include "exchange/sparse_sum.h"
#include "exchange/worker.h"
#include "laconic/threads.h"
#include "support/rehearsal.h"
#include "support/support.h"

namespace laconic::test {
namespace {

std::unique_ptr<Place> rehearsed(int rank) { return rehearsed_place(varied_options(rank)); }

class ThreadExchanges : public testing::TestWithParam<std::tuple<int, ExchangeCheck>> {};

TEST_P(ThreadExchanges, Hold) {
  const auto& [ranks, check] = GetParam();
  run_workers(ranks, varied_place, check.run);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ThreadExchanges,
                         testing::Combine(testing::Values(1, 2, 3, 4, 7),
                                          testing::ValuesIn(exchange_checks().begin(), exchange_checks().end())),
                         [](const auto& test) {
                           return std::string(std::get<1>(test.param).name) + "_" +
                                  std::to_string(std::get<0>(test.param));
                         });

/// In memory that only front doors can touch: an exchange that indexes into a view ends this program.
class RehearsedExchanges : public testing::TestWithParam<ExchangeCheck> {};

TEST_P(RehearsedExchanges, Hold) {
  for (const int ranks : {1, 3}) {
    rehearse_as(GetParam().name + (" with ranks " + std::to_string(ranks)));
    run_workers(ranks, rehearsed, GetParam().run);
  }
}

INSTANTIATE_TEST_SUITE_P(Checks, RehearsedExchanges,
                         testing::ValuesIn(exchange_checks().begin(), exchange_checks().end()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ExchangeFaults, RanksWithOtherBlocksAreRefused) {
  for (const int ranks : {2, 3, 4}) run_workers(ranks, varied_place, check_block_refuses_other_blocks);
  rehearse_as("other blocks");
  run_workers(3, rehearsed, check_block_refuses_other_blocks);
}

TEST(ExchangeFaults, DamageIsRefusedAndTold) {
  for (const int ranks : {1, 2, 3, 4, 7}) check_damage_is_refused(ranks, varied_place);
  rehearse_as("damage");
  for (const int ranks : {1, 3}) check_damage_is_refused(ranks, rehearsed);
}

TEST(ExchangeFaults, OneThatIsDroppedInFlightLeavesNobodyHanging) {
  for (const int ranks : {2, 3}) check_dropping_in_flight(ranks, varied_place);
  rehearse_as("dropping in flight");
  check_dropping_in_flight(3, rehearsed);
}

TEST(ExchangeFaults, AFailedExchangeStaysFailed) { check_failure_stays(2, varied_place); }

TEST(Borders, FollowTheLoad) {
  Place place({.threads = 1});
  // Four owners of [0, 400); owner 0 received 300 entries and returned 3, the others 100 and 1 each.
  const std::vector<std::uint32_t> indices{10, 20, 30, 110, 210, 310};
  const std::vector<OwnerLoad> loads{{3, 300}, {1, 100}, {1, 100}, {1, 100}};
  std::vector<std::uint64_t> borders(5);
  follow_aggregate(place, indices, loads, 400, borders);
  // 600 in all, 150 each: 1.5 of the first owner's entries, then its 3rd, then half way through the others.
  EXPECT_EQ(borders, (std::vector<std::uint64_t>{0, 20, 110, 210, 400}));
}

TEST(Borders, AreTheSameIfTheListComesInParts) {
  Place place({.threads = 1});
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < 40; ++i) indices.push_back(i * i);
  const std::vector<OwnerLoad> loads{{3, 300}, {0, 0}, {20, 50}, {1, 7}, {16, 90}};
  std::vector<std::uint64_t> expected(6);
  follow_aggregate(place, indices, loads, 2'000, expected);
  for (const std::vector<std::size_t>& ends :
       std::vector<std::vector<std::size_t>>{{3, 3, 23, 24, 40}, {0, 24, 40}, {1, 2, 39, 40}}) {
    std::vector<std::uint64_t> borders(6);
    MovingBorders moving(loads, 2'000, borders);
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      moving.read(place, View<const std::uint32_t>(indices).sub(begin, end - begin));
      begin = end;
    }
    EXPECT_EQ(borders, expected);
  }
}

TEST(Borders, AreEvenWithoutEntries) {
  Place place({.threads = 1});
  std::vector<std::uint64_t> borders(4);
  follow_aggregate(place, {}, std::vector<OwnerLoad>(3), 300, borders);
  EXPECT_EQ(borders, (std::vector<std::uint64_t>{0, 100, 200, 300}));
}

TEST(Borders, StayAscendingWithFewerEntriesThanOwners) {
  Place place({.threads = 1});
  const std::vector<std::uint32_t> indices{7};
  const std::vector<OwnerLoad> loads{{1, 1}, {0, 0}, {0, 0}};
  std::vector<std::uint64_t> borders(4);
  follow_aggregate(place, indices, loads, 10, borders);
  EXPECT_TRUE(std::is_sorted(borders.begin(), borders.end()));
  EXPECT_EQ(borders.front(), 0U);
  EXPECT_EQ(borders.back(), 10U);
}

/// A caller that takes stages in an order of its own may look at a message long before its turn comes.
TEST(ExchangeSeconds, EndWhenTheArrivalIsNoticed) {
  run_ranks(2, [](Communicator& communicator) {
    const auto own_place = varied_place(communicator.rank());
    Place& place = *own_place;
    DenseSum sum(communicator, place, 100);
    auto values = values_of(communicator.rank(), 100, 1);
    Status status;
    double most = 0.0;
    double begun = seconds_now();
    sum.start(values, view_of(status));
    for (bool done = false; !done;) {
      while (!sum.is_ready()) std::this_thread::yield();
      most += seconds_now() - begun;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_TRUE(sum.is_ready());
      begun = seconds_now();
      done = sum.wait_for_stage();
    }
    EXPECT_GT(sum.traffic().exchange_seconds, 0.0);
    EXPECT_LE(sum.traffic().exchange_seconds, most);
  });
}

TEST(ExchangeMemory, NothingIsAllocatedAfterTheFirstSteps) {
  run_ranks(3, [](Communicator& communicator) {
    const auto own_place = varied_place(communicator.rank());
    Place& place = *own_place;
    const std::uint64_t n = 20'000;
    const std::uint64_t k = 200;
    const std::vector<std::uint64_t> sizes{7'000, 13'000};
    const Layout layout{std::span<const std::uint64_t>(sizes)};
    DenseSum dense(communicator, place, n);
    SparseSum gather(communicator, place, n, k, {.route = SparseRoute::gather});
    SparseSum range(communicator, place, n, k, {.route = SparseRoute::range});
    SparseSum keep(communicator, place, n, k, {.coded_return = true});
    PackedVote vote(communicator, place, layout);
    QuantizedSum gathered(communicator, place, layout);
    QuantizedSum scattered(communicator, place, layout, {.route = QuantizedRoute::scatter});
    auto values = values_of(communicator.rank(), n, 1);
    std::vector<Entries> supports;
    for (std::uint64_t step = 0; step < 8; ++step) {
      supports.push_back(entries_of(communicator.rank(), n, k, 0.5, step));
    }
    const auto step = [&](std::uint32_t number) {
      Status status;
      const StepKey key{1, number, static_cast<std::uint32_t>(communicator.rank())};
      dense.start(values, view_of(status));
      dense.finish();
      for (SparseSum* sum : {&gather, &range, &keep}) {
        sum->start(supports[number].view(), values, view_of(status));
        sum->finish();
      }
      vote.start(values, key, values, view_of(status));
      vote.finish();
      for (QuantizedSum* sum : {&gathered, &scattered}) {
        sum->start(values, number % 2 == 0 ? 4 : 8, key, values, view_of(status));
        sum->finish();
      }
    };
    for (std::uint32_t number = 0; number < 3; ++number) step(number);
    communicator.barrier().wait();
    const auto before = allocation_count();
    communicator.barrier().wait();
    for (std::uint32_t number = 3; number < 8; ++number) step(number);
    communicator.barrier().wait();
    EXPECT_EQ(allocation_count(), before);
    communicator.barrier().wait();
  });
}

}  // namespace
}  // namespace laconic::test
