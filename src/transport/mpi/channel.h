#pragma once

#include <mpi.h>

#include <memory>

#include "transport/mpi/counters.h"
#include "transport/mpi/operation.h"
#include "transport/mpi/world.h"

namespace laconic::mpi {

/// The part of one communicator that it does not share and whose addresses MPI may hold. Each duplicate has its own
/// channel.
struct Channel {
  /// Owns `duplicate`, which nobody else uses.
  Channel(std::shared_ptr<World> shared, MPI_Comm duplicate);

  /// A new operation for the call, to be passed to MPI. Call it under the lock.
  MpiOperation& open(const Call& call, Milliseconds patience);

  /// Frees the MPI objects of this channel and, for the first channel, those of the world. Collective. Call it only if
  /// nothing has failed.
  void free(bool first, Milliseconds timeout);

  std::shared_ptr<World> world;
  MPI_Comm communicator;
  OperationPool<MpiOperation> operations;
  std::uint64_t next_sequence = 0;
  Counters counters;
};

/// The first channel of a new world. Collective. Throws InvalidConfig if the ranks' options differ.
std::shared_ptr<Channel> first_channel(MPI_Comm parent, const MpiOptions& options, Milliseconds timeout);

/// Keeps a channel that cannot be freed for the rest of the process, because MPI may still hold its addresses.
void keep_forever(std::shared_ptr<Channel> channel);

}  // namespace laconic::mpi
