#include "transport/mpi/communicator.h"

#include <climits>
#include <exception>

#include "laconic/error.h"
#include "laconic/mpi.h"

namespace laconic::mpi {
namespace {

constexpr std::uint64_t kSmallestMessage = 64;
constexpr std::uint64_t kLargestMessage = INT_MAX;

class MpiCounter final : public SharedCounter {
 public:
  MpiCounter(std::shared_ptr<Channel> channel, Counters::Window* window, std::size_t place, Milliseconds timeout)
      : channel_(std::move(channel)), window_(window), place_(place), timeout_(timeout) {}

  std::int64_t fetch_add(std::int64_t amount) override {
    return mpi::fetch_add(*channel_->world, *window_, place_, amount, timeout_);
  }

 private:
  std::shared_ptr<Channel> channel_;
  Counters::Window* window_;
  std::size_t place_;
  Milliseconds timeout_;
};

const char* level_name(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE: return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
    default: return "MPI_THREAD_MULTIPLE";
  }
}

bool finalized() {
  int done = 0;
  MPI_Finalized(&done);
  return done != 0;
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<Channel> channel, bool first)
    : channel_(std::move(channel)),
      world_(*channel_->world),
      movement_(world_, channel_->communicator),
      first_(first),
      exceptions_(std::uncaught_exceptions()) {}

MpiCommunicator::~MpiCommunicator() {
  if (first_) world_.stop_progress();
  if (!finalized() && std::uncaught_exceptions() > exceptions_) world_.fail("an exception ended it");
  try {
    if (!finalized() && !world_.failed()) {
      channel_->free(first_, timeout());
      return;
    }
  } catch (...) {
    // The others did not come.
  }
  keep_forever(std::move(channel_));
}

Handle MpiCommunicator::start(const Call& call) {
  if (world_.failed()) world_.throw_if_failed(describe(call));
  Lock lock(mpi_mutex());
  MpiOperation& operation = channel_->open(call, timeout());
  try {
    movement_.post(operation, call);
  } catch (const std::exception& error) {
    lock.unlock();
    world_.fail(error.what());
    throw;
  }
  if (operation.in_flight()) {
    world_.operation_started();
    lock.unlock();
    world_.wake_progress();
  }
  return {&operation, timeout()};
}

std::unique_ptr<Communicator> MpiCommunicator::duplicate() {
  world_.throw_if_failed("duplicate");
  return beside(world_.duplicate(channel_->communicator, timeout()));
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color) {
  world_.throw_if_failed("split");
  return beside(world_.split(channel_->communicator, color, timeout()));
}

std::unique_ptr<Communicator> MpiCommunicator::beside(MPI_Comm own) {
  auto communicator = std::make_unique<MpiCommunicator>(std::make_shared<Channel>(channel_->world, own), false);
  communicator->set_timeout(timeout());
  return communicator;
}

std::unique_ptr<SharedCounter> MpiCommunicator::make_counter() {
  world_.throw_if_failed("make_counter");
  if (size() != world_.size()) {
    // OpenMPI names a window's shared memory after its communicator, and gives subgroups without common ranks one name.
    throw InvalidConfig("a subgroup of " + std::to_string(size()) + " of " + std::to_string(world_.size()) +
                        " ranks of MPI has no counters: make the counter on the communicator that was split");
  }
  const auto [window, place] = channel_->counters.make(timeout());
  world_.serve_counters();
  return std::make_unique<MpiCounter>(channel_, window, place, timeout());
}

std::string MpiCommunicator::description() const {
  std::string text = "mpi, " + std::to_string(size()) + (size() == 1 ? " rank, " : " ranks, ");
  if (world_.has_progress()) return text + "progress thread";
  const bool wanted = world_.options().progress_thread;
  text += "no progress thread (";
  text += wanted ? std::string("MPI granted ") + level_name(world_.thread_level()) : std::string("switched off");
  return text + "): the host drives progress, and a shared counter advances only while rank 0 calls";
}

}  // namespace laconic::mpi

namespace laconic {

std::unique_ptr<Communicator> mpi_communicator(MPI_Comm parent, MpiOptions options) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0) {
    throw InvalidConfig(
        "mpi_communicator needs MPI, which is not initialised: call MPI_Init_thread(MPI_THREAD_SERIALIZED) first");
  }
  if (mpi::finalized()) {
    throw InvalidConfig("mpi_communicator needs MPI, which has been finalised: call it before MPI_Finalize");
  }
  if (parent == MPI_COMM_NULL) {
    throw InvalidConfig(
        "parent is MPI_COMM_NULL: pass a communicator that this rank belongs to, such as MPI_COMM_WORLD");
  }
  if (options.max_message_bytes < mpi::kSmallestMessage || options.max_message_bytes > mpi::kLargestMessage) {
    throw InvalidConfig("max_message_bytes must be in " + std::to_string(mpi::kSmallestMessage) + ".." +
                        std::to_string(mpi::kLargestMessage) + ", got " + std::to_string(options.max_message_bytes) +
                        ": MPI counts are int");
  }
  constexpr Milliseconds kTimeout{60'000};
  const auto channel = mpi::first_channel(parent, options, kTimeout);
  auto communicator = std::make_unique<mpi::MpiCommunicator>(channel, true);
  channel->world->start_progress();
  return communicator;
}

}  // namespace laconic
