#include "transport/mpi/channel.h"

#include <array>

#include "laconic/error.h"
#include "laconic/mpi.h"

namespace laconic::mpi {
namespace {

/// Ranks with different limits would split their messages differently and wait for each other. They all throw then.
void require_same_limit(World& world, MPI_Comm communicator, Milliseconds timeout) {
  const auto own = static_cast<std::int64_t>(world.options().max_message_bytes);
  auto extremes = std::make_unique<std::array<std::int64_t, 2>>(std::array<std::int64_t, 2>{own, -own});
  MPI_Request request = MPI_REQUEST_NULL;
  {
    std::lock_guard lock(mpi_mutex());
    require_success(MPI_Iallreduce(MPI_IN_PLACE, extremes->data(), 2, MPI_INT64_T, MPI_MAX, communicator, &request),
                    "mpi_communicator");
  }
  world.complete_or_keep(request, extremes, "mpi_communicator", timeout);
  const auto [largest, negated_smallest] = *extremes;
  if (largest == -negated_smallest) return;
  throw InvalidConfig("max_message_bytes is " + std::to_string(-negated_smallest) + " on one rank and " +
                      std::to_string(largest) + " on another: give all ranks the same");
}

}  // namespace

Channel::Channel(std::shared_ptr<World> shared, MPI_Comm duplicate)
    : world(std::move(shared)), communicator(duplicate), counters(*world, duplicate) {}

MpiOperation& Channel::open(const Call& call, Milliseconds patience) {
  MpiOperation& operation =
      operations.take([this] { return std::make_unique<MpiOperation>(*world, operations); });
  operation.reset(call, next_sequence++, patience);
  return operation;
}

/// Once all ranks have met here, none is still to be told of a failure or to draw a ticket.
void Channel::free(bool first, Milliseconds timeout) {
  if (first || !counters.empty()) world->meet(communicator, "the communicator's end", timeout);
  counters.free();
  if (first) world->free();
  std::lock_guard lock(mpi_mutex());
  MPI_Comm_free(&communicator);
}

/// If the options differ, every rank sees that, so both duplicates are freed. After a timeout they are kept, because to
/// free them is collective too.
std::shared_ptr<Channel> first_channel(MPI_Comm parent, const MpiOptions& options, Milliseconds timeout) {
  auto world = std::make_shared<World>(parent, options, timeout);
  MPI_Comm own = world->duplicate(parent, timeout);
  try {
    require_same_limit(*world, own, timeout);
  } catch (const InvalidConfig&) {
    world->free();
    std::lock_guard lock(mpi_mutex());
    MPI_Comm_free(&own);
    throw;
  }
  return std::make_shared<Channel>(std::move(world), own);
}

void keep_forever(std::shared_ptr<Channel> channel) {
  static auto& kept = *new std::vector<std::shared_ptr<Channel>>;
  std::lock_guard lock(mpi_mutex());
  kept.push_back(std::move(channel));
}

}  // namespace laconic::mpi
