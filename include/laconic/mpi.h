#pragma once

#include <mpi.h>

#include <memory>
#include <mutex>

#include "laconic/communicator.h"

namespace laconic {

struct MpiOptions {
  /// Longer messages travel in fragments of this size: MPI counts are int. 64 to 2^31 - 1, the same on all ranks.
  std::uint64_t max_message_bytes = std::uint64_t{1} << 30;
  /// Polls MPI between calls, so that a shared counter advances while its host computes and messages move while a rank
  /// does. Needs MPI_THREAD_SERIALIZED; with less, the host drives progress by calling, and `description()` says so.
  bool progress_thread = true;
};

/// A communicator over a duplicate of `parent`; MPI must be initialised and must outlive it. Collective, and so is its
/// destruction, unless an exception ends it: then the other ranks are told.
///
/// A call is withdrawn by waiting for it: a handle that is dropped in flight waits up to the timeout for the other
/// ranks. If they do not come, or a rank has failed, receives are cancelled and the communicator is failed; MPI cannot
/// take back sends and collectives, so after a failure it may still touch their views inside MPI calls that the program
/// itself makes (Laconic makes none any more on that communicator). End the process, or keep those views, and do not
/// call MPI. A rank that has vanished makes MPI_Finalize wait for it: call MPI_Abort instead.
///
/// Calls that do not match between ranks are not noticed: they end in a timeout or in MPI's own error.
std::unique_ptr<Communicator> mpi_communicator(MPI_Comm parent, MpiOptions options = {});

/// Held round every MPI call that Laconic makes in this process, never while it waits; only to make and to free a
/// window of shared counters MPI blocks under it, for the time of its own messages, and over TCP OpenMPI may in
/// fetch_add, until the counter's host answers. While a communicator with a progress thread lives and MPI grants no
/// more than MPI_THREAD_SERIALIZED, hold it round your own MPI calls too.
std::mutex& mpi_mutex();

}  // namespace laconic
