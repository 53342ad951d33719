#include "transport/mpi/counters.h"

#include <algorithm>

#include "laconic/error.h"
#include "laconic/mpi.h"

namespace laconic::mpi {
namespace {

constexpr int kHost = 0;

[[noreturn]] void throw_timeout(Milliseconds timeout) {
  throw TransportError("fetch_add of a shared counter did not end within " + std::to_string(timeout.count()) +
                       " ms: rank 0, which keeps it, has vanished, or computes without a progress thread; start MPI "
                       "with MPI_THREAD_SERIALIZED, or raise the timeout");
}

}  // namespace

/// All ranks have met just before: MPI_Win_allocate blocks only for the time of its own messages.
void Counters::add_window() {
  std::lock_guard lock(mpi_mutex());
  auto added = std::make_unique<Window>();
  std::int64_t* values = nullptr;
  const MPI_Aint bytes = world_.rank() == kHost ? kCountersPerWindow * sizeof(std::int64_t) : 0;
  require_success(MPI_Win_allocate(bytes, sizeof(std::int64_t), MPI_INFO_NULL, communicator_, &values, &added->window),
                  "MPI_Win_allocate");
  require_success(MPI_Win_set_errhandler(added->window, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
  require_success(MPI_Win_lock_all(MPI_MODE_NOCHECK, added->window), "MPI_Win_lock_all");
  if (world_.rank() == kHost) {
    std::fill_n(values, kCountersPerWindow, 0);
    require_success(MPI_Win_sync(added->window), "MPI_Win_sync");
  }
  windows_.push_back(std::move(added));
  used_ = 0;
}

std::pair<Counters::Window*, std::size_t> Counters::make(Milliseconds timeout) {
  world_.meet(communicator_, "make_counter", timeout);
  if (used_ == kCountersPerWindow) {
    add_window();
    world_.meet(communicator_, "make_counter", timeout);  // the host has written its zeros
    // OpenMPI's pt2pt windows block in the first call for the host's answer: here it is sure to give one, by polling.
    fetch_add(world_, *windows_.back(), 0, 0, timeout);
    world_.meet(communicator_, "make_counter", timeout);
  }
  return {windows_.back().get(), used_++};
}

void Counters::free() noexcept {
  for (auto& each : windows_) {
    std::lock_guard lock(mpi_mutex());
    MPI_Win_unlock_all(each->window);
    MPI_Win_free(&each->window);
  }
  windows_.clear();
}

std::int64_t fetch_add(World& world, Counters::Window& window, std::size_t place, std::int64_t amount,
                       Milliseconds timeout) {
  world.throw_if_failed("fetch_add of a shared counter");
  Counters::Cell& cell = window.cells[place];
  cell.amount = amount;
  MPI_Request request = MPI_REQUEST_NULL;
  {
    std::lock_guard lock(mpi_mutex());
    require_success(MPI_Rget_accumulate(&cell.amount, 1, MPI_INT64_T, &cell.before, 1, MPI_INT64_T, kHost,
                                        static_cast<MPI_Aint>(place), 1, MPI_INT64_T, MPI_SUM, window.window, &request),
                    "MPI_Rget_accumulate");
  }
  const auto finished = [&] {
    int done = 0;
    require_success(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "fetch_add of a shared counter");
    return done != 0;
  };
  const auto name = [] { return std::string("fetch_add of a shared counter"); };
  try {
    if (world.poll(deadline_after(timeout), name, finished)) return cell.before;
    throw_timeout(timeout);
  } catch (const std::exception& error) {
    world.fail(error.what());  // MPI still has the cell, and the ticket is lost
    throw;
  }
}

}  // namespace laconic::mpi
