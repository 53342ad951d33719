#pragma once

#include <mpi.h>

#include <memory>

#include "transport/mpi/counters.h"
#include "transport/mpi/operation.h"
#include "transport/mpi/world.h"

namespace laconic::mpi {

/// What one communicator has of its own, and MPI may hold addresses of. A duplicate has a channel of its own.
struct Channel {
  /// Owns `duplicate`, which nobody else uses.
  Channel(std::shared_ptr<World> shared, MPI_Comm duplicate);

  /// An operation for the call, to be given to MPI. Under the lock.
  MpiOperation& open(const Call& call, Milliseconds patience);

  /// Frees what MPI knows of this channel, and of the world with the first one. Collective. Only if nothing has failed.
  void free(bool first, Milliseconds timeout);

  std::shared_ptr<World> world;
  MPI_Comm communicator;
  OperationPool<MpiOperation> operations;
  std::uint64_t next_sequence = 0;
  Counters counters;
};

/// The first channel of a new world. Collective. InvalidConfig if the ranks' options differ.
std::shared_ptr<Channel> first_channel(MPI_Comm parent, const MpiOptions& options, Milliseconds timeout);

/// What cannot be given back to MPI is kept for the rest of the process: MPI may still know its addresses.
void keep_forever(std::shared_ptr<Channel> channel);

}  // namespace laconic::mpi
