#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/mpi/link.h"

namespace laconic::mpi {

/// Shared counters in one-sided memory of rank 0, a window for many. Windows last as long as the communicator, because
/// to free one is collective and a counter's end must not be.
class CounterHost {
 public:
  static constexpr std::size_t kCountersAWindow = 256;

  /// What a fetch_add in flight reads and writes; it stays while MPI may use it.
  struct Cell {
    std::int64_t amount = 0;
    std::int64_t before = 0;
  };
  struct Window {
    MPI_Win window = MPI_WIN_NULL;
    std::array<Cell, kCountersAWindow> cells;
  };

  CounterHost(Link& link, MPI_Comm communicator) : link_(link), communicator_(communicator) {}

  /// Collective. A counter at zero: its window and its place in it.
  std::pair<Window*, std::size_t> make(Milliseconds timeout);

  bool empty() const { return windows_.empty(); }
  /// Collective; every rank is about to call it.
  void free() noexcept;

 private:
  void add_window();

  Link& link_;
  MPI_Comm communicator_;
  std::vector<std::unique_ptr<Window>> windows_;
  std::size_t used_ = kCountersAWindow;  ///< of the last window
};

/// Adds to a counter and returns what was there. Polls; the host's progress thread serves it.
std::int64_t fetch_add(Link& link, CounterHost::Window& window, std::size_t place, std::int64_t amount,
                       Milliseconds timeout);

}  // namespace laconic::mpi
