#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "laconic/mpi.h"
#include "transport/deadline.h"

namespace laconic::mpi {

class Progress;

using Lock = std::unique_lock<std::mutex>;

/// Throws a TransportError with MPI's own message unless the code is MPI_SUCCESS.
void require_success(int code, std::string_view what);

/// What a failing rank sends to the others.
struct FailureNotice {
  std::int32_t rank = 0;
  std::uint32_t length = 0;
  char text[400] = {};
};
static_assert(sizeof(FailureNotice) == 408);

/// What a communicator and its duplicates share: the ranks of a run, the communicator on which failing ranks notify the
/// others, and the progress thread. All MPI calls of the process run under one lock. No thread blocks while it holds
/// the lock; a thread that waits polls. The exception is windows (counters.h), which MPI creates and frees in blocking
/// calls.
class World {
 public:
  /// Collective over `parent`.
  World(MPI_Comm parent, const MpiOptions& options, Milliseconds timeout);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const MpiOptions& options() const { return options_; }
  int thread_level() const { return thread_level_; }  ///< the level that MPI has granted

  /// Calls done() under the lock until it returns true; returns false after the deadline. Spins first, then yields,
  /// then sleeps. Once a rank has failed, throws a PeerFailure that names the waiting call. Passes on what done()
  /// throws.
  bool poll(Clock::time_point deadline, FunctionRef<std::string()> name, FunctionRef<bool()> done);

  /// The same until the timeout, but shortly before it the other ranks are asked whether they are alive. A rank answers
  /// if it is waiting, or if it has a progress thread and something in flight.
  bool poll_with_roll_call(Milliseconds timeout, FunctionRef<std::string()> name, FunctionRef<bool()> done);
  /// Throws WaitTimeout, which names the ranks that did not answer.
  [[noreturn]] void throw_timeout(const std::string& name, Milliseconds timeout) const;

  /// Polls for one request. Throws TransportError after the timeout.
  void complete(MPI_Request& request, std::string_view what, Milliseconds timeout);
  /// The same for a request that writes `target`. If the request does not end, `target` is kept for the rest of the
  /// process, because MPI may still write it.
  template <class T>
  void complete_or_keep(MPI_Request& request, std::unique_ptr<T>& target, std::string_view what, Milliseconds timeout) {
    try {
      complete(request, what, timeout);
    } catch (...) {
      static_cast<void>(target.release());
      throw;
    }
  }
  /// A barrier that polls. If all ranks have arrived, they also meet if they learn of a failure meanwhile, so that no
  /// rank withdraws while another enters a call that blocks.
  void meet(MPI_Comm communicator, std::string_view what, Milliseconds timeout);
  /// A duplicate of an MPI communicator that returns errors as codes. Collective.
  MPI_Comm duplicate(MPI_Comm parent, Milliseconds timeout);

  /// One of the ranks that pass the same colour, in the order of their ranks. Collective.
  MPI_Comm split(MPI_Comm parent, int color, Milliseconds timeout);

  /// Receives notices of other ranks and drives MPI's progress. Call it under the lock.
  void look();
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  void throw_if_failed(std::string_view what) const;
  /// Notifies the other ranks, unless there was a failure before; the first one counts.
  void fail(std::string_view reason) noexcept;

  // The progress thread. It exists if the options request it and MPI allows it. It stops with the first communicator.
  void start_progress();
  void stop_progress();
  bool has_progress() const { return progress_ != nullptr; }
  /// An operation has been started.
  void wake_progress();
  /// From now on the progress thread polls all the time, because a counter exists.
  void serve_counters();

  // What the progress thread checks: operations in flight, and whether another thread is polling now.
  void operation_started() { in_flight_.fetch_add(1); }
  void operation_ended() { in_flight_.fetch_sub(1); }
  bool in_flight() const { return in_flight_.load() > 0; }
  bool somebody_polls() const { return pollers_.load(std::memory_order_relaxed) > 0; }

  /// Frees the MPI communicator. Call it only if nothing has failed and every rank calls it.
  void free() noexcept;

 private:
  void call_roll();
  std::vector<int> silent_ranks() const;
  void say(int tag, int other) const;
  void receive(const MPI_Status& status);
  void receive_notice(int source);
  bool announce(std::string_view reason);
  bool ends_nevertheless(MPI_Request& request);

  const MpiOptions options_;
  int thread_level_ = MPI_THREAD_SINGLE;
  MPI_Comm failures_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::atomic<int> pollers_{0};
  std::atomic<int> in_flight_{0};
  std::atomic<bool> failed_{false};
  std::string failure_;  ///< written once, before failed_
  FailureNotice notice_;
  std::vector<MPI_Request> notices_sent_;
  std::vector<char> heard_;  ///< by rank: whether it has answered since the last roll call
  std::unique_ptr<Progress> progress_;
};

}  // namespace laconic::mpi
