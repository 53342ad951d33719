#include <gtest/gtest.h>

#include <atomic>

#include "laconic/error.h"
#include "support/support.h"
#include "transport/communicator_suite.h"
#include "transport/turns/run_ranks.h"
#include "transport/turns/turns.h"

namespace laconic::test {
namespace {

using namespace std::chrono_literals;

class Turns : public testing::TestWithParam<int> {};

TEST_P(Turns, Suite) {
  run_ranks_in_turn(GetParam(), [](Communicator& communicator) { check_everything(communicator); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Turns, testing::Values(1, 2, 3, 4, 7));

TEST(TurnsTest, DescribesItself) {
  run_ranks_in_turn(3, [](Communicator& communicator) {
    EXPECT_EQ(turns::kStacksMayChange ? "in turn, 3 ranks" : "threads, 3 ranks", communicator.description());
  });
}

TEST(TurnsTest, RefusesRanksOutOfRange) {
  EXPECT_EQ("ranks must be in 1..1024, got 0: ask for one per worker",
            message_of<InvalidConfig>([] { run_ranks_in_turn(0, [](Communicator&) {}); }));
}

// Rank 1 is busy with a duplicate, on which the others come only when they have given up.
TEST(TurnsTest, TimeoutNamesWhoIsMissing) {
  std::atomic<int> given_up{0};
  run_ranks_in_turn(3, [&](Communicator& communicator) {
    auto twin = communicator.duplicate();
    if (communicator.rank() == 1) {
      Handle other = twin->barrier();
      while (given_up < 2) EXPECT_FALSE(other.test());
      communicator.barrier().wait();
      other.wait();
      return;
    }
    Handle handle = communicator.barrier();
    const auto text = message_of<TransportError>([&] { handle.wait(20ms); });
    EXPECT_TRUE(contains(text, "barrier (operation 0) did not end within 20 ms: rank 1 has not started it")) << text;
    ++given_up;
    handle.wait();  // a timeout is not the end
    twin->barrier().wait();
  });
  EXPECT_EQ(2, given_up);
}

TEST(TurnsTest, ARankThatThrowsEndsTheOthers) {
  std::atomic<int> ended{0};
  const std::string message = message_of<InvalidConfig>([&] {
    run_ranks_in_turn(4, [&](Communicator& communicator) {
      communicator.barrier().wait();
      if (communicator.rank() == 2) throw InvalidConfig("rank 2 wants no more");
      try {
        communicator.barrier().wait();
      } catch (const TransportError& error) {
        EXPECT_TRUE(contains(error.what(), "rank 2 failed: rank 2 wants no more")) << error.what();
        ++ended;
        throw;
      }
    });
  });
  EXPECT_EQ("rank 2 wants no more", message);
  EXPECT_EQ(3, ended);
}

TEST(TurnsTest, PassesOnWhatIsNoException) {
  EXPECT_THROW(run_ranks_in_turn(2, [](Communicator&) { throw 7; }), int);
}

}  // namespace
}  // namespace laconic::test
