#include "transport/mpi/communicator.h"

#include <array>
#include <climits>
#include <cstring>
#include <exception>

#include "base/no_thread.h"
#include "laconic/error.h"
#include "laconic/mpi.h"

namespace laconic::mpi {
namespace {

constexpr std::uint64_t kSmallestMessage = 64;
constexpr std::uint64_t kLargestMessage = INT_MAX;

class MpiCounter final : public SharedCounter {
 public:
  MpiCounter(std::shared_ptr<Channel> channel, CounterHost::Window* window, std::size_t place, Milliseconds timeout)
      : channel_(std::move(channel)), window_(window), place_(place), timeout_(timeout) {}

  std::int64_t fetch_add(std::int64_t amount) override {
    return mpi::fetch_add(channel_->engine->link, *window_, place_, amount, timeout_);
  }

 private:
  std::shared_ptr<Channel> channel_;
  CounterHost::Window* window_;
  std::size_t place_;
  Milliseconds timeout_;
};

/// What cannot be given back to MPI is kept for the rest of the process: MPI may still know its addresses.
void keep_forever(std::shared_ptr<Channel> channel) {
  static auto& kept = *new std::vector<std::shared_ptr<Channel>>;
  std::lock_guard lock(mpi_mutex());
  kept.push_back(std::move(channel));
}

int granted_thread_level() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  return level;
}

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

void copy_bytes(std::byte* target, const std::byte* source, std::uint64_t bytes) {
  if (bytes != 0 && target != source) std::memcpy(target, source, bytes);
}

/// Ranks with different limits would split their messages differently and wait for each other. They all throw then.
void require_same_limit(Link& link, MPI_Comm communicator, std::uint64_t limit, Milliseconds timeout) {
  const auto own = static_cast<std::int64_t>(limit);
  auto extremes = std::make_unique<std::array<std::int64_t, 2>>(std::array<std::int64_t, 2>{own, -own});
  MPI_Request request = MPI_REQUEST_NULL;
  {
    std::lock_guard lock(mpi_mutex());
    require_success(MPI_Iallreduce(MPI_IN_PLACE, extremes->data(), 2, MPI_INT64_T, MPI_MAX, communicator, &request),
                    "mpi_communicator");
  }
  link.complete_or_keep(request, extremes, "mpi_communicator", timeout);
  const auto [largest, negated_smallest] = *extremes;
  if (largest == -negated_smallest) return;
  throw InvalidConfig("max_message_bytes is " + std::to_string(-negated_smallest) + " on one rank and " +
                      std::to_string(largest) + " on another: give all ranks the same");
}

/// A duplicate of the parent for the first communicator. Given back, with the link's own, if the ranks' options differ:
/// every rank sees that. After a timeout both are kept, because to free them is collective too.
MPI_Comm first_duplicate(Engine& engine, MPI_Comm parent, Milliseconds timeout) {
  MPI_Comm own = engine.link.duplicate(parent, timeout);
  try {
    require_same_limit(engine.link, own, engine.options.max_message_bytes, timeout);
  } catch (const InvalidConfig&) {
    engine.link.free();
    std::lock_guard lock(mpi_mutex());
    MPI_Comm_free(&own);
    throw;
  }
  return own;
}

void start_progress(Engine& engine) {
  try {
    engine.progress = std::make_unique<Progress>(engine.link);
  } catch (const std::exception& reason) {
    const Error error = no_thread("the progress thread of MPI could not be started",
                                  "the threads per rank (--threads) or the ranks per machine", reason);
    engine.link.fail(error.what());
    throw error;
  }
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<Engine> engine, MPI_Comm own, bool first)
    : channel_(std::make_shared<Channel>(std::move(engine), own)),
      engine_(*channel_->engine),
      link_(engine_.link),
      poster_(link_, own, engine_.options.max_message_bytes),
      first_(first),
      exceptions_(std::uncaught_exceptions()) {}

MpiCommunicator::~MpiCommunicator() {
  if (first_) engine_.progress.reset();
  if (!finalized() && std::uncaught_exceptions() > exceptions_) link_.fail("an exception ended it");
  try {
    if (!finalized() && !link_.failed()) {
      give_back();
      return;
    }
  } catch (...) {
    // The others did not come.
  }
  keep_forever(std::move(channel_));
}

/// Once all ranks have come here, none is still to be told of a failure or to draw a ticket.
void MpiCommunicator::give_back() {
  if (first_ || !channel_->counters.empty()) link_.meet(channel_->communicator, "the communicator's end", timeout());
  channel_->counters.free();
  if (first_) link_.free();
  std::lock_guard lock(mpi_mutex());
  MPI_Comm_free(&channel_->communicator);
}

template <class Post>
Handle MpiCommunicator::start(const Call& call, Post&& post) {
  if (link_.failed()) link_.throw_if_failed(describe(call));
  Lock lock(mpi_mutex());
  MpiOperation& operation = channel_->pool.take(call, timeout());
  try {
    post(operation);
  } catch (const std::exception& error) {
    lock.unlock();
    link_.fail(error.what());
    throw;
  }
  if (operation.in_flight()) {
    link_.operation_started();
    lock.unlock();
    if (engine_.progress) engine_.progress->wake();
  }
  return {&operation, timeout()};
}

Handle MpiCommunicator::all_reduce(View<float> values, Reduction reduction) {
  const Call call = all_reduce_call(values, reduction);
  return start(call, [&](MpiOperation& operation) {
    if (size() > 1) poster_.all_reduce(operation, call);
  });
}

Handle MpiCommunicator::reduce_scatter(View<const float> values, View<float> chunk) {
  const Call call = reduce_scatter_call(size(), values, chunk);
  return start(call, [&](MpiOperation& operation) {
    if (size() > 1) return poster_.reduce_scatter(operation, call);
    copy_bytes(call.receive, call.send, call.bytes);
  });
}

Handle MpiCommunicator::all_gather(View<const std::byte> mine, View<std::byte> all) {
  const Call call = all_gather_call(size(), mine, all);
  return start(call, [&](MpiOperation& operation) {
    if (size() > 1) return poster_.all_gather(operation, call);
    copy_bytes(call.receive, call.send, call.bytes);
  });
}

Handle MpiCommunicator::all_gather_varying(View<const std::byte> mine, View<std::byte> all,
                                           std::span<const Part> parts) {
  const Call call = all_gather_varying_call(size(), rank(), mine, all, parts);
  return start(call, [&](MpiOperation& operation) { poster_.all_gather_varying(operation, call); });
}

Handle MpiCommunicator::all_to_all(View<const std::byte> send, View<std::byte> receive) {
  const Call call = all_to_all_call(size(), send, receive);
  return start(call, [&](MpiOperation& operation) {
    if (size() > 1) return poster_.all_to_all(operation, call);
    copy_bytes(call.receive, call.send, call.bytes);
  });
}

Handle MpiCommunicator::all_to_all_varying(View<const std::byte> send, std::span<const Part> send_parts,
                                           View<std::byte> receive, std::span<const Part> receive_parts) {
  const Call call = all_to_all_varying_call(size(), rank(), send, send_parts, receive, receive_parts);
  return start(call, [&](MpiOperation& operation) { poster_.all_to_all_varying(operation, call); });
}

Handle MpiCommunicator::broadcast(View<std::byte> bytes, int root) {
  const Call call = broadcast_call(size(), bytes, root);
  return start(call, [&](MpiOperation& operation) {
    if (size() > 1) poster_.broadcast(operation, call);
  });
}

Handle MpiCommunicator::barrier() {
  return start(Call{}, [&](MpiOperation& operation) { poster_.barrier(operation); });
}

std::unique_ptr<Communicator> MpiCommunicator::duplicate() {
  link_.throw_if_failed("duplicate");
  const MPI_Comm own = link_.duplicate(channel_->communicator, timeout());
  auto communicator = std::make_unique<MpiCommunicator>(channel_->engine, own, false);
  communicator->set_timeout(timeout());
  return communicator;
}

std::unique_ptr<SharedCounter> MpiCommunicator::make_counter() {
  link_.throw_if_failed("make_counter");
  const auto [window, place] = channel_->counters.make(timeout());
  if (engine_.progress) engine_.progress->serve_counters();
  return std::make_unique<MpiCounter>(channel_, window, place, timeout());
}

void MpiCommunicator::fail(std::string_view reason) noexcept { link_.fail(reason); }

std::string MpiCommunicator::description() const {
  std::string text = "mpi, " + std::to_string(size()) + (size() == 1 ? " rank, " : " ranks, ");
  if (engine_.progress) return text + "progress thread";
  const bool wanted = engine_.options.progress_thread;
  text += "no progress thread (";
  text += wanted ? std::string("MPI granted ") + level_name(engine_.thread_level) : std::string("switched off");
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
  auto engine = std::make_shared<mpi::Engine>(parent, kTimeout);
  engine->options = options;
  engine->thread_level = mpi::granted_thread_level();
  const MPI_Comm own = mpi::first_duplicate(*engine, parent, kTimeout);
  auto communicator = std::make_unique<mpi::MpiCommunicator>(engine, own, true);
  if (options.progress_thread && engine->thread_level >= MPI_THREAD_SERIALIZED) mpi::start_progress(*engine);
  return communicator;
}

}  // namespace laconic
