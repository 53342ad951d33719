#include "laconic/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <thread>

#include "laconic/error.h"
#include "support/limited.h"
#include "support/support.h"
#include "transport/communicator_suite.h"

namespace laconic::test {
namespace {

using namespace std::chrono_literals;

class Threads : public testing::TestWithParam<int> {};

TEST_P(Threads, Suite) {
  run_ranks(GetParam(), [](Communicator& communicator) { check_everything(communicator); });
}

TEST_P(Threads, SumsInRankOrder) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  constexpr std::size_t kEntries = 10007;
  std::vector<std::vector<float>> inputs;
  for (std::size_t r = 0; r < ranks; ++r) inputs.push_back(normal_values(kEntries, r));
  std::vector<float> expected = inputs[0];
  for (std::size_t r = 1; r < ranks; ++r) {
    for (std::size_t i = 0; i < kEntries; ++i) expected[i] += inputs[r][i];
  }
  run_ranks(GetParam(), [&](Communicator& communicator) {
    std::vector<float> data = inputs[static_cast<std::size_t>(communicator.rank())];
    communicator.all_reduce(data, Reduction::sum).wait();
    EXPECT_EQ(expected, data);
  });
}

TEST_P(Threads, ManyMoreInFlightThanTheFirstRing) {
  run_ranks(GetParam(), [](Communicator& communicator) {
    std::vector<float> sums(100, 1.0F);
    std::vector<Handle> handles;
    for (float& sum : sums) handles.push_back(communicator.all_reduce(View<float>(&sum, 1), Reduction::sum));
    for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle) handle->wait();
    for (const float sum : sums) EXPECT_EQ(static_cast<float>(communicator.size()), sum);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Threads, testing::Values(1, 2, 3, 4, 7));

TEST(ThreadsTest, DescribesItself) {
  auto communicators = thread_communicators(4);
  EXPECT_EQ("threads, 4 ranks", communicators[3]->description());
  EXPECT_EQ(3, communicators[3]->rank());
}

TEST(ThreadsTest, RefusesRanksOutOfRange) {
  EXPECT_EQ("ranks must be in 1..1024, got 0: ask for one per worker",
            message_of<InvalidConfig>([] { thread_communicators(0); }));
  EXPECT_TRUE(contains(message_of<InvalidConfig>([] { run_ranks(5000, [](Communicator&) {}); }), "got 5000"));
}

TEST(ThreadsTest, RanksWhoseThreadsCannotBeStartedEndTheOthers) {
  if (!can_limit_memory()) GTEST_SKIP() << "sanitizers need all addresses";
  const std::string text = with_little_memory(std::size_t{256} << 20, [] {
    return message_of<Error>([] { run_ranks(1000, [](Communicator& communicator) { communicator.barrier().wait(); }); });
  });
  EXPECT_TRUE(contains(text, " of 1000 could not be started")) << text;
  EXPECT_TRUE(contains(text, "lower the number of ranks (--workers)")) << text;
}

// Ranks 1 and 2 start a reduction and compute on without calling; rank 0 does the whole of it.
TEST(ThreadsTest, CompletesWhileOtherRanksAreBusy) {
  std::promise<void> seen;
  auto done = seen.get_future().share();
  run_ranks(3, [&](Communicator& communicator) {
    std::vector<float> data(100000, 1.0F);
    Handle handle = communicator.all_reduce(data, Reduction::sum);
    if (communicator.rank() == 0) {
      handle.wait(60s);
      seen.set_value();
    } else {
      ASSERT_EQ(std::future_status::ready, done.wait_for(120s));
      EXPECT_EQ(3.0F, data[99999]);
      EXPECT_TRUE(handle.test());
    }
  });
}

TEST(ThreadsTest, TimeoutNamesWhoIsMissing) {
  std::latch given_up(2);
  run_ranks(4, [&](Communicator& communicator) {
    const bool late = communicator.rank() == 1 || communicator.rank() == 2;
    if (late) given_up.wait();
    Handle handle = communicator.barrier();
    if (!late) {
      const auto text = message_of<TransportError>([&] { handle.wait(20ms); });
      EXPECT_TRUE(contains(text, "barrier (operation 0) did not end within 20 ms: rank 1, 2 has not started it"))
          << text;
      given_up.count_down();
    }
    handle.wait();  // a timeout is not the end
  });
}

TEST(ThreadsTest, DefaultTimeoutComesFromTheCommunicator) {
  auto communicators = thread_communicators(2);
  communicators[0]->set_timeout(10ms);
  EXPECT_TRUE(contains(message_of<TransportError>([&] { communicators[0]->barrier().wait(); }), "within 10 ms"));
}

TEST(ThreadsTest, DroppedHandleWithdraws) {
  auto communicators = thread_communicators(2);
  {
    std::vector<float> data(10);
    Handle dropped = communicators[0]->all_reduce(data, Reduction::sum);
  }
  std::vector<float> data(10, 2.0F);
  Handle handle = communicators[1]->all_reduce(data, Reduction::sum);
  const auto text = message_of<TransportError>([&] { handle.wait(); });
  EXPECT_TRUE(contains(text, "rank 0 withdrew from all_reduce (sum) of 40 bytes (operation 0)")) << text;
  EXPECT_EQ(std::vector<float>(10, 2.0F), data);
  handle = Handle();
  Handle next = communicators[0]->barrier();  // the others can go on together
  communicators[1]->barrier().wait();
  next.wait();
}

TEST(ThreadsTest, FailureEndsWaitsNowAndLater) {
  auto communicators = thread_communicators(3);
  std::vector<std::byte> mine(4);
  std::vector<std::byte> all(12);
  Handle present = communicators[1]->all_gather(mine, all);
  auto waiting = std::async(std::launch::async, [&] { return message_of<TransportError>([&] { present.wait(); }); });
  std::this_thread::sleep_for(20ms);
  communicators[2]->fail("its disk is full");
  communicators[0]->fail("an echo, which nobody is told");
  EXPECT_EQ("rank 2 failed: its disk is full", waiting.get());
  for (auto& communicator : communicators) {
    const auto text = message_of<TransportError>([&] { communicator->barrier().wait(); });
    EXPECT_TRUE(contains(text, "rank 2 failed: its disk is full")) << text;
  }
  EXPECT_THROW(present.test(), TransportError);
}

TEST(ThreadsTest, FailureOfASubgroupIsAFailureOfAll) {
  std::atomic<int> told{0};
  run_ranks(4, [&](Communicator& communicator) {
    auto subgroup = communicator.split(communicator.rank() % 2);
    if (communicator.rank() == 3) return subgroup->fail("out of memory");
    Communicator& waits = communicator.rank() == 2 ? communicator : *subgroup;  // 0 is in the other one, 1 in the same
    const auto text = message_of<TransportError>([&] { waits.barrier().wait(); });
    EXPECT_TRUE(contains(text, "rank 3 failed: out of memory")) << text;
    ++told;
  });
  EXPECT_EQ(3, told);
}

TEST(ThreadsTest, MessagesOfASubgroupNameTheRanksOfTheWhole) {
  run_ranks(4, [&](Communicator& communicator) {
    auto subgroup = communicator.split(communicator.rank() / 2);
    if (communicator.rank() == 2) {
      Handle handle = subgroup->barrier();
      const auto text = message_of<TransportError>([&] { handle.wait(50ms); });
      EXPECT_TRUE(contains(text, "rank 3 has not started it")) << text;
      communicator.barrier().wait();
      handle.wait();
    } else {
      communicator.barrier().wait();
      if (communicator.rank() == 3) subgroup->barrier().wait();
    }
  });
}

TEST(ThreadsTest, CallsOfASubgroupThatDoNotMatchNameTheRanksOfTheWhole) {
  run_ranks(4, [&](Communicator& communicator) {
    auto subgroup = communicator.split(communicator.rank() / 2);
    if (communicator.rank() < 2) return;
    std::vector<std::byte> mine(static_cast<std::size_t>(communicator.rank()));
    std::vector<std::byte> all(2 * mine.size());
    const auto text = message_of<InvalidConfig>([&] { subgroup->all_gather(mine, all).wait(); });
    EXPECT_TRUE(contains(text, "rank 2 called all_gather of 2 bytes per rank, rank 3 called all_gather of 3")) << text;
  });
}

TEST(ThreadsTest, FailureOfADuplicateIsAFailureOfAll) {
  std::atomic<int> told{0};
  run_ranks(3, [&](Communicator& communicator) {
    auto twin = communicator.duplicate();
    if (communicator.rank() == 0) return twin->fail("out of memory");
    const auto text = message_of<TransportError>([&] { communicator.barrier().wait(); });
    EXPECT_TRUE(contains(text, "rank 0 failed: out of memory")) << text;
    ++told;
  });
  EXPECT_EQ(2, told);
}

TEST(ThreadsTest, RankThatEndsEarlyIsNamed) {
  std::atomic<int> told{0};
  run_ranks(3, [&](Communicator& communicator) {
    if (communicator.rank() == 1) return;
    const auto text = message_of<TransportError>([&] { communicator.barrier().wait(); });
    EXPECT_TRUE(contains(text, "rank 1 has ended")) << text;
    ++told;
  });
  EXPECT_EQ(2, told);
}

/// Each rank calls what `call` says and must be told the same text.
template <class Body>
void expect_mismatch(int ranks, Body&& call, const std::string& text) {
  std::atomic<int> told{0};
  run_ranks(ranks, [&](Communicator& communicator) {
    const auto found = message_of<InvalidConfig>([&] { call(communicator); });
    EXPECT_TRUE(contains(found, text)) << found;
    ++told;
  });
  EXPECT_EQ(ranks, told);
}

TEST(ThreadsTest, OtherCallIsNamed) {
  std::vector<std::byte> bytes(8);
  expect_mismatch(
      2,
      [&](Communicator& communicator) {
        if (communicator.rank() == 0) return communicator.broadcast(bytes, 1).wait();
        communicator.barrier().wait();
      },
      "rank 0 called broadcast of 8 bytes from rank 1, rank 1 called barrier as operation 0: every rank must start the "
      "same calls in the same order");
}

TEST(ThreadsTest, OtherSizeRootOrReductionIsNamed) {
  expect_mismatch(
      3,
      [](Communicator& communicator) {
        std::vector<float> data(communicator.rank() == 2 ? 5 : 4);
        communicator.all_reduce(data, Reduction::sum).wait();
      },
      "rank 2 called all_reduce (sum) of 20 bytes");
  expect_mismatch(
      3,
      [](Communicator& communicator) {
        std::vector<std::byte> data(4);
        communicator.broadcast(data, communicator.rank() == 1 ? 1 : 0).wait();
      },
      "rank 1 called broadcast of 4 bytes from rank 1");
  expect_mismatch(
      2,
      [](Communicator& communicator) {
        std::vector<float> data(4);
        communicator.all_reduce(data, communicator.rank() == 1 ? Reduction::max : Reduction::sum).wait();
      },
      "rank 0 called all_reduce (sum) of 16 bytes, rank 1 called all_reduce (max) of 16 bytes");
}

TEST(ThreadsTest, OtherRangesAreNamed) {
  expect_mismatch(
      2,
      [](Communicator& communicator) {
        std::vector<std::byte> all(10);
        const std::uint64_t mine = communicator.rank() == 0 ? 3 : 4;
        const std::vector<ByteRange> ranges{{0, mine}, {mine, 10 - mine}};
        const auto own = ranges[static_cast<std::size_t>(communicator.rank())];
        std::vector<std::byte> message(own.bytes);
        communicator.all_gather_varying(message, all, ranges).wait();
      },
      "rank 0 called all_gather_varying with sizes 3, 7, rank 1 with sizes 4, 6");
  expect_mismatch(
      2,
      [](Communicator& communicator) {
        std::vector<std::byte> send(10);
        std::vector<std::byte> receive(10);
        const std::vector<ByteRange> sent{{0, 2}, {2, 2}};
        std::vector<ByteRange> expected{{0, 3}, {3, 2}};
        if (communicator.rank() == 0) expected = sent;
        communicator.all_to_all_varying(send, sent, receive, expected).wait();
      },
      "rank 0 called all_to_all_varying with 2 bytes for rank 1, which called it expecting 3");
}

TEST(RunRanks, ThrowsTheCauseAndNotItsEchoes) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto text = message_of<CorruptPayload>([] {
      run_ranks(4, [](Communicator& communicator) {
        std::vector<float> data(100);
        for (int step = 0; step < 5; ++step) {
          Handle handle = communicator.all_reduce(data, Reduction::sum);
          if (communicator.rank() == 2 && step == 3) throw CorruptPayload("payload 17 is cut short");
          handle.wait();
        }
      });
    });
    ASSERT_EQ("payload 17 is cut short", text);
  }
}

TEST(RunRanks, OthersAreToldWhoThrew) {
  std::atomic<int> told{0};
  EXPECT_THROW(run_ranks(3,
                         [&](Communicator& communicator) {
                           if (communicator.rank() == 1) throw std::runtime_error("out of ideas");
                           const auto text = message_of<TransportError>([&] { communicator.barrier().wait(); });
                           EXPECT_TRUE(contains(text, "rank 1 failed: out of ideas")) << text;
                           ++told;
                         }),
               std::runtime_error);
  EXPECT_EQ(2, told);
}

TEST(RunRanks, PassesOnWhatIsNoException) {
  EXPECT_THROW(run_ranks(2, [](Communicator&) { throw 7; }), int);
}

}  // namespace
}  // namespace laconic::test
