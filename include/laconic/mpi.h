#pragma once

#include <mpi.h>

#include <memory>
#include <mutex>

#include "laconic/communicator.h"

namespace laconic {

struct MpiOptions {
  /// Longer messages are split into fragments of this size, because MPI counts are int. It must be 64 to 2^31 - 1 and
  /// the same on all ranks.
  std::uint64_t max_message_bytes = std::uint64_t{1} << 30;
  /// Starts a thread that polls MPI between calls, so that fetch_add completes and messages move while ranks compute.
  /// Needs MPI_THREAD_SERIALIZED. If MPI grants less, progress happens only inside calls, and `description()` says so.
  bool progress_thread = true;
};

/// A communicator over a duplicate of `parent`. MPI must be initialised and must outlive it. Collective. Its
/// destruction is collective too, unless an exception causes it: then the other ranks are notified.
///
/// To withdraw a call is to wait for it: a handle that is destroyed in flight waits for the other ranks, at most for
/// the timeout. If they do not come, or a rank has failed, it cancels receives and fails the communicator. MPI cannot
/// cancel sends and collectives, so after a failure it may still touch their views inside MPI calls that the program
/// itself makes (Laconic makes no more calls on that communicator). End the process, or keep those views and do not
/// call MPI. MPI_Finalize waits for a rank that has vanished: call MPI_Abort instead.
///
/// Calls that do not match between ranks are not detected: they end in a timeout or in MPI's own error.
std::unique_ptr<Communicator> mpi_communicator(MPI_Comm parent, MpiOptions options = {});

/// Laconic locks this mutex around every MPI call that it makes in this process, and does not hold it while it waits.
/// There are two exceptions. MPI blocks under it, for the time of its own messages, when a window of shared counters is
/// created or freed and when a communicator is split; and OpenMPI over TCP may block in fetch_add until the rank that
/// keeps the counter answers. While a communicator with a progress thread lives and MPI grants no more than
/// MPI_THREAD_SERIALIZED, lock it around your own MPI calls too.
std::mutex& mpi_mutex();

}  // namespace laconic
