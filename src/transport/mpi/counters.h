#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/mpi/world.h"

namespace laconic::mpi {

/// Shared counters in one-sided memory of rank 0; one window holds many counters. Windows live as long as the
/// communicator, because freeing a window is collective and destroying a counter must not be.
///
/// MPI creates and frees a window only in collective calls that block, and they block under the process's lock. All
/// ranks meet first, by polling, so that each call takes only the time of its own messages and does not wait for a slow
/// rank. If two threads of a process create or free windows of two communicators at once, they may still deadlock with
/// threads of another process. So a process creates counters, and destroys communicators that have counters, one at a
/// time and in the same order as all other processes. If a rank dies between the meeting and the call, the others block
/// in the call, and no timeout ends that.
class Counters {
 public:
  static constexpr std::size_t kCountersPerWindow = 256;

  /// Memory that a fetch_add in flight reads and writes. It lives as long as MPI may use it.
  struct Cell {
    std::int64_t amount = 0;
    std::int64_t before = 0;
  };
  struct Window {
    MPI_Win window = MPI_WIN_NULL;
    std::array<Cell, kCountersPerWindow> cells;
  };

  Counters(World& world, MPI_Comm communicator) : world_(world), communicator_(communicator) {}

  /// Makes a counter with value zero and returns its window and its place in it. Collective.
  std::pair<Window*, std::size_t> make(Milliseconds timeout);

  bool empty() const { return windows_.empty(); }
  /// Collective. The ranks must have met just before.
  void free() noexcept;

 private:
  void add_window();

  World& world_;
  MPI_Comm communicator_;
  std::vector<std::unique_ptr<Window>> windows_;
  std::size_t used_ = kCountersPerWindow;  ///< counters in use in the last window
};

/// Adds to a counter and returns the value before. It polls; the progress thread of rank 0 serves it. After a timeout
/// MPI may still add and write the cell, and nobody would receive the result, so the world fails and no later call
/// touches the cell.
/// If OpenMPI 4's rdma windows run over TCP, the MPI call that starts it blocks under the lock until rank 0 answers,
/// and the timeout does not end that. There rank 0's progress thread limits the wait.
std::int64_t fetch_add(World& world, Counters::Window& window, std::size_t place, std::int64_t amount,
                       Milliseconds timeout);

}  // namespace laconic::mpi
