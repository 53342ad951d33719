#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "laconic/error.h"
#include "laconic/mpi.h"
#include "support/limited.h"
#include "support/support.h"
#include "transport/communicator_suite.h"

namespace laconic::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

std::unique_ptr<Communicator> world(std::uint64_t max_message_bytes = MpiOptions{}.max_message_bytes) {
  auto communicator = mpi_communicator(MPI_COMM_WORLD, {.max_message_bytes = max_message_bytes});
  communicator->set_timeout(60s);
  return communicator;
}

bool progress_thread_granted() {
  int level = 0;
  MPI_Query_thread(&level);
  return level >= MPI_THREAD_SERIALIZED;
}

/// Waits for what happens outside MPI, for a minute unless told otherwise; false if it did not.
template <class Condition>
bool wait_until(Condition&& condition, std::chrono::seconds most = 60s) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// Lets a rank wait for others while it calls nothing of MPI: each rings by making a file in a folder of rank 0's.
class Bells {
 public:
  explicit Bells(Communicator& communicator) : rank_(communicator.rank()), size_(communicator.size()) {
    static int made = 0;
    auto process = static_cast<std::uint32_t>(getpid());
    const auto named = [&] { return "laconic_bells_" + std::to_string(process) + "_" + std::to_string(made); };
    ++made;
    if (rank_ == 0) fs::create_directories(fs::temp_directory_path() / named());
    communicator.broadcast(as_writable_bytes(View<std::uint32_t>(&process, 1)), 0).wait();
    folder_ = fs::temp_directory_path() / named();
  }
  ~Bells() {
    std::error_code ignored;
    if (rank_ == 0) fs::remove_all(folder_, ignored);
  }
  Bells(const Bells&) = delete;
  Bells& operator=(const Bells&) = delete;

  void ring() const { std::ofstream{folder_ / std::to_string(rank_)}; }
  bool rang(int rank, std::chrono::seconds most = 60s) const {
    return wait_until([&] { return fs::exists(folder_ / std::to_string(rank)); }, most);
  }
  bool all_others_rang(std::chrono::seconds most = 60s) const {
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_ && !rang(rank, most)) return false;
    }
    return true;
  }

 private:
  int rank_;
  int size_;
  fs::path folder_;
};

/// Whether a process of this machine is stopped; Linux tells, elsewhere a while must do.
bool stopped(std::uint32_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  if (!file) {
    std::this_thread::sleep_for(500ms);
    return true;
  }
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.substr(name_end).starts_with(") T");
}

/// Memory that lasts as long as the program: MPI may touch the views of a call that a failure ended.
template <class T>
std::vector<T>& lasting(std::size_t size) {
  static auto& all = *new std::vector<std::unique_ptr<std::vector<T>>>;
  all.push_back(std::make_unique<std::vector<T>>(size));
  return *all.back();
}

TEST(Mpi, Suite) { check_everything(*world()); }

// Every message longer than a thousand bytes travels in pieces.
TEST(Mpi, SuiteInPieces) { check_everything(*world(1000), 4099); }

TEST(Mpi, SuiteWithoutProgressThread) {
  auto communicator = mpi_communicator(MPI_COMM_WORLD, {.progress_thread = false});
  EXPECT_TRUE(contains(communicator->description(), "no progress thread (switched off): the host drives progress"));
  check_everything(*communicator, 4099);
}

TEST(Mpi, DescribesItself) {
  const auto text = world()->description();
  EXPECT_TRUE(contains(text, "mpi, " + std::to_string(world_size()))) << text;
  if (progress_thread_granted()) {
    EXPECT_TRUE(contains(text, ", progress thread")) << text;
  } else {
    EXPECT_TRUE(contains(text, "no progress thread (MPI granted MPI_THREAD_FUNNELED): the host drives progress"))
        << text;
  }
}

TEST(Mpi, RefusesBadOptions) {
  EXPECT_EQ("max_message_bytes must be in 64..2147483647, got 10: MPI counts are int",
            message_of<InvalidConfig>([] { mpi_communicator(MPI_COMM_WORLD, {.max_message_bytes = 10}); }));
  EXPECT_TRUE(contains(message_of<InvalidConfig>([] { mpi_communicator(MPI_COMM_NULL); }), "parent is MPI_COMM_NULL"));
  if (world_size() == 1) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::uint64_t limit = rank == 0 ? 1000 : 2000;
  EXPECT_EQ("max_message_bytes is 1000 on one rank and 2000 on another: give all ranks the same",
            message_of<InvalidConfig>([&] { mpi_communicator(MPI_COMM_WORLD, {.max_message_bytes = limit}); }));
}

/// Counts through attributes what becomes of a communicator's duplicates.
struct Duplicates {
  int made = 0;
  int freed = 0;
};
int count_made(MPI_Comm, int, void*, void* value, void* copy, int* wanted) {
  ++static_cast<Duplicates*>(value)->made;
  *static_cast<void**>(copy) = value;
  *wanted = 1;
  return MPI_SUCCESS;
}
int count_freed(MPI_Comm, int, void* value, void*) {
  ++static_cast<Duplicates*>(value)->freed;
  return MPI_SUCCESS;
}

TEST(Mpi, GivesItsCommunicatorsBack) {
  Duplicates duplicates;
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm parent = MPI_COMM_NULL;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  MPI_Comm_create_keyval(count_made, count_freed, &key, nullptr);
  MPI_Comm_set_attr(parent, key, &duplicates);
  mpi_communicator(parent)->duplicate();
  EXPECT_GE(duplicates.made, 3);
  EXPECT_EQ(duplicates.made, duplicates.freed);
  duplicates = {};
  if (world_size() > 1) {
    const std::uint64_t limit = rank == 0 ? 1000 : 2000;
    EXPECT_THROW(mpi_communicator(parent, {.max_message_bytes = limit}), InvalidConfig);
    EXPECT_GE(duplicates.made, 2);
    EXPECT_EQ(duplicates.made, duplicates.freed);
  }
  MPI_Comm_delete_attr(parent, key);
  MPI_Comm_free_keyval(&key);
  MPI_Comm_free(&parent);
}

TEST(Mpi, SeveralCommunicatorsLiveSideBySide) {
  auto one = world();
  auto other = world(1000);
  std::vector<float> left(5000, 1.0F);
  std::vector<float> right(5000, 2.0F);
  Handle first = one->all_reduce(left, Reduction::sum);
  Handle second = other->all_reduce(right, Reduction::sum);
  second.wait();
  first.wait();
  EXPECT_EQ(static_cast<float>(one->size()), left[4999]);
  EXPECT_EQ(static_cast<float>(2 * one->size()), right[4999]);
}

// The host of the counter is outside the library until the others have got their tickets.
TEST(MpiCounter, AdvancesWhileItsHostIsElsewhere) {
  if (!progress_thread_granted()) GTEST_SKIP() << "needs a progress thread";
  auto communicator = world();
  auto counter = communicator->make_counter();
  const Bells bells(*communicator);
  if (communicator->rank() == 0) {
    EXPECT_TRUE(bells.all_others_rang()) << "the counter waits for its host";
  } else {
    for (int i = 0; i < 100; ++i) counter->fetch_add(1);
    bells.ring();
  }
  communicator->barrier().wait();
  EXPECT_EQ(100 * (communicator->size() - 1), counter->fetch_add(0));
}

// Where one-sided calls need the host's help (OpenMPI's pt2pt windows) and it gives none in time: the ticket is lost,
// so nobody goes on.
TEST(MpiCounter, ASubgroupHasNone) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  const auto communicator = world();
  const auto subgroup = communicator->split(communicator->rank());
  const auto text = message_of<InvalidConfig>([&] { subgroup->make_counter(); });
  EXPECT_TRUE(contains(text, "has no counters: make the counter on the communicator that was split")) << text;
}

TEST(MpiCounter, TimeoutFailsTheCommunicator) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  auto communicator = mpi_communicator(MPI_COMM_WORLD, {.progress_thread = false});
  communicator->barrier().wait();
  const Bells bells(*communicator);
  communicator->set_timeout(500ms);
  auto counter = communicator->make_counter();
  communicator->set_timeout(60s);
  std::string said;
  try {
    if (communicator->rank() == 0) {
      bells.all_others_rang(3s);  // some engines wait for the host inside MPI, where nothing ends a call
    } else {
      try {
        counter->fetch_add(1);
      } catch (const TransportError&) {
        bells.ring();
        throw;
      }
      bells.ring();
    }
    communicator->barrier().wait();
  } catch (const TransportError& error) {
    said = error.what();
  }
  if (said.empty()) GTEST_SKIP() << "the counter advances without its host";
  EXPECT_TRUE(contains(said, "fetch_add of a shared counter did not end within 500 ms")) << said;
  const auto later = message_of<TransportError>([&] { counter->fetch_add(1); });
  EXPECT_TRUE(contains(later, "failed: fetch_add of a shared counter did not end within 500 ms")) << later;
}

// A long message moves while its sender computes.
TEST(MpiProgress, MessageArrivesWhileItsSenderIsElsewhere) {
  if (!progress_thread_granted() || world_size() == 1) GTEST_SKIP() << "needs a progress thread and two ranks";
  auto communicator = world();
  const Bells bells(*communicator);
  const bool sender = communicator->rank() == 0;
  std::vector<std::byte> bytes(20'000'000, sender ? std::byte{1} : std::byte{0});
  Handle handle = communicator->broadcast(bytes, 0);
  if (sender) {
    EXPECT_TRUE(bells.rang(1)) << "the message waits for its sender";
  }
  handle.wait();
  EXPECT_EQ(bytes.back(), std::byte{1});
  if (!sender) bells.ring();
}

// What is told: a notice may overtake the end of calls that had begun before, so the others reduce until it comes.
TEST(MpiFailure, OthersAreToldWhoFailed) {
  auto communicator = world();
  if (communicator->size() == 1) GTEST_SKIP() << "needs two ranks";
  const int culprit = communicator->size() - 1;
  std::vector<float>& data = lasting<float>(1000);
  const std::string named = "rank " + std::to_string(culprit);
  if (communicator->rank() == culprit) {
    communicator->all_reduce(data, Reduction::sum).wait();
    communicator->fail("its gradient is not finite");
    const auto text = message_of<TransportError>([&] { communicator->barrier().wait(); });
    EXPECT_TRUE(contains(text, named + ", this one, failed: its gradient is not finite")) << text;
  } else {
    const auto text = message_of<TransportError>([&] {
      for (;;) communicator->all_reduce(data, Reduction::sum).wait();
    });
    EXPECT_TRUE(contains(text, named + " failed: its gradient is not finite")) << text;
    EXPECT_TRUE(contains(text, "all_reduce")) << text;
    const auto later = message_of<TransportError>([&] { communicator->barrier().wait(); });
    EXPECT_TRUE(contains(later, named + " failed")) << later;
  }
}

// Nobody calls fail(): the exception that ends the communicator tells the others.
TEST(MpiFailure, ExceptionThatEndsARankTellsTheOthers) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  const auto body = [] {
    auto communicator = world();
    std::vector<std::byte>& mine = lasting<std::byte>(100'000);
    std::vector<std::byte>& all = lasting<std::byte>(mine.size() * static_cast<std::size_t>(communicator->size()));
    for (int step = 0; step < 5; ++step) {
      communicator->all_gather(mine, all).wait();
      if (communicator->rank() == 0 && step == 2) throw CorruptPayload("cut short");
    }
  };
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    EXPECT_EQ("cut short", message_of<CorruptPayload>(body));
  } else {
    const auto text = message_of<TransportError>(body);
    EXPECT_TRUE(contains(text, "rank 0 failed: an exception ended it")) << text;
  }
}

TEST(MpiFailure, ARankWithoutAThreadTellsTheOthers) {
  if (world_size() == 1 || !progress_thread_granted()) GTEST_SKIP() << "needs two ranks and a progress thread";
  if (!can_limit_memory()) GTEST_SKIP() << "sanitizers need all addresses";
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  world();  // what MPI allocates with its first communicators is there
  const std::string words = "the progress thread of MPI could not be started";
  std::string text;
  if (rank == 0) {
    const NoMoreThreads here;
    text = message_of<Error>([] { world(); });
    EXPECT_TRUE(text.starts_with(words)) << text;
    EXPECT_TRUE(contains(text, "ulimit -u")) << text;
    return;
  }
  text = message_of<TransportError>([] { world()->barrier().wait(); });
  EXPECT_TRUE(contains(text, "rank 0 failed: " + words)) << text;
}

TEST(MpiFailure, DuplicateHearsOfIt) {
  auto communicator = world();
  if (communicator->size() == 1) GTEST_SKIP() << "needs two ranks";
  auto twin = communicator->duplicate();
  if (communicator->rank() == 0) {
    twin->barrier().wait();
    return communicator->fail("out of memory");
  }
  const auto text = message_of<TransportError>([&] {
    for (;;) twin->barrier().wait();
  });
  EXPECT_TRUE(contains(text, "rank 0 failed: out of memory")) << text;
}

TEST(MpiFailure, SubgroupsHearOfIt) {
  const auto communicator = world();
  if (communicator->size() < 3) GTEST_SKIP() << "needs three ranks";
  const auto subgroup = communicator->split(communicator->rank() == 0 ? 0 : 1);
  if (communicator->rank() == 0) {
    std::this_thread::sleep_for(100ms);
    return subgroup->fail("out of memory");
  }
  const auto text = message_of<TransportError>([&] {
    for (;;) subgroup->barrier().wait();
  });
  EXPECT_TRUE(contains(text, "rank 0 failed: out of memory")) << text;
}

TEST(MpiFailure, RankThatIsLateIsATimeout) {
  auto communicator = world();
  if (communicator->size() == 1) GTEST_SKIP() << "needs two ranks";
  const Bells bells(*communicator);
  if (communicator->rank() == 0) {
    EXPECT_TRUE(bells.all_others_rang());
    communicator->barrier().wait();
    return;
  }
  Handle handle = communicator->barrier();
  const auto text = message_of<TransportError>([&] { handle.wait(50ms); });
  EXPECT_TRUE(contains(text, "did not end within 50 ms")) << text;
  EXPECT_TRUE(contains(text, "barrier (operation ") && contains(text, "raise the timeout")) << text;
  bells.ring();
  handle.wait();  // a timeout is not the end
}

// A stopped process neither answers nor says so. The others give up after the timeout and end without it.
TEST(MpiFailure, StoppedRankIsATimeout) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  auto communicator = world();
  const int last = communicator->size() - 1;
  std::vector<std::uint32_t> processes(static_cast<std::size_t>(communicator->size()));
  std::vector<std::uint32_t> mine{static_cast<std::uint32_t>(getpid())};
  communicator->all_gather(as_bytes(View<std::uint32_t>(mine)), as_writable_bytes(View<std::uint32_t>(processes)))
      .wait();
  std::vector<std::byte>& large = lasting<std::byte>(3'000'000);
  std::vector<std::byte>& all = lasting<std::byte>(large.size() * processes.size());
  if (communicator->rank() == last) {
    // Continued by rank 0 below. What the others left in MPI's hands may still complete; then it hears that one
    // withdrew.
    raise(SIGSTOP);
    EXPECT_THROW(for (;;) communicator->all_gather(large, all).wait(), TransportError);
    return;
  }
  // One that is continued before it has stopped would stop for good.
  EXPECT_TRUE(wait_until([&] { return stopped(processes.back()); }));
  communicator->set_timeout(300ms);
  const auto text = message_of<TransportError>([&] { communicator->all_gather(large, all).wait(); });
  EXPECT_TRUE(contains(text, "did not end within 300 ms") || contains(text, "withdrew from")) << text;
  communicator.reset();  // ends though that rank does not answer
  if (mine[0] == processes[0]) kill(static_cast<pid_t>(processes.back()), SIGCONT);
}

TEST(MpiLarge, MoreThanTwoToTheThirtyFirstBytes) {
  if (std::getenv("LACONIC_LARGE_TESTS") == nullptr)
    GTEST_SKIP() << "set LACONIC_LARGE_TESTS=1; takes 14 GB at 2 ranks";
  auto communicator = world();
  communicator->set_timeout(120s);
  const auto ranks = static_cast<std::uint64_t>(communicator->size());
  const auto rank = static_cast<std::uint64_t>(communicator->rank());
  constexpr std::uint64_t kBytes = (std::uint64_t{1} << 31) + 50'000'003;
  const auto filled = [&](std::uint64_t sender, std::uint64_t i) {
    return static_cast<std::byte>(sender * 91 + i / 1'000'003);
  };
  std::vector<std::byte> mine(kBytes);
  for (std::uint64_t i = 0; i < kBytes; ++i) mine[i] = filled(rank, i);
  std::vector<std::byte> all(kBytes * ranks);
  const auto check = [&](std::uint64_t r) {
    for (std::uint64_t i = 0; i < kBytes; i += 997) ASSERT_EQ(filled(r, i), all[r * kBytes + i]) << r << " " << i;
    ASSERT_EQ(filled(r, kBytes - 1), all[(r + 1) * kBytes - 1]);
  };
  communicator->all_gather(mine, all).wait();
  for (std::uint64_t r = 0; r < ranks; ++r) check(r);
  std::fill(all.begin(), all.end(), std::byte{0});
  std::vector<ByteRange> sent(ranks, ByteRange{0, kBytes});
  std::vector<ByteRange> received;
  for (std::uint64_t r = 0; r < ranks; ++r) received.push_back({r * kBytes, kBytes});
  communicator->all_to_all_varying(mine, sent, all, received).wait();
  for (std::uint64_t r = 0; r < ranks; ++r) check(r);
}

}  // namespace
}  // namespace laconic::test
