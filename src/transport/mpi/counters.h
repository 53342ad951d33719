#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/mpi/world.h"

namespace laconic::mpi {

/// Shared counters in one-sided memory of rank 0, a window for many. Windows last as long as the communicator, because
/// to free one is collective and a counter's end must not be.
///
/// MPI makes and frees a window only in collective calls that block, and they block under the process's lock. All ranks
/// meet first, by polling, so that each call lasts for its own messages and not for a straggler. Two threads of a
/// process that make or free windows of two communicators at once may still wait for each other, each in another
/// process: counters, and the ends of communicators that have some, come one at a time in a process, in the same order
/// in all. A rank that dies between the meeting and the call leaves the others in it, and no timeout ends that.
class Counters {
 public:
  static constexpr std::size_t kCountersPerWindow = 256;

  /// What a fetch_add in flight reads and writes; it stays while MPI may use it.
  struct Cell {
    std::int64_t amount = 0;
    std::int64_t before = 0;
  };
  struct Window {
    MPI_Win window = MPI_WIN_NULL;
    std::array<Cell, kCountersPerWindow> cells;
  };

  Counters(World& world, MPI_Comm communicator) : world_(world), communicator_(communicator) {}

  /// Collective. A counter at zero: its window and its place in it.
  std::pair<Window*, std::size_t> make(Milliseconds timeout);

  bool empty() const { return windows_.empty(); }
  /// Collective; the ranks have met just before.
  void free() noexcept;

 private:
  void add_window();

  World& world_;
  MPI_Comm communicator_;
  std::vector<std::unique_ptr<Window>> windows_;
  std::size_t used_ = kCountersPerWindow;  ///< of the last window
};

/// Adds to a counter and returns what was there. Polls; the host's progress thread serves it. After a timeout MPI may
/// still add and write the cell, and nobody would get the ticket, so the world is failed: no later call touches the
/// cell.
/// Where OpenMPI 4's rdma windows run over TCP, the MPI call that starts it blocks until the host answers, under the
/// lock, and the timeout does not end that: there the host's progress thread bounds it.
std::int64_t fetch_add(World& world, Counters::Window& window, std::size_t place, std::int64_t amount,
                       Milliseconds timeout);

}  // namespace laconic::mpi
