#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/communicator.h"

namespace laconic::plugin {

/// How the ranks of a c10d group report that one cannot go on: the first rank that fails writes a key of the group's
/// store. A separate thread accesses the store, so that no wait depends on it. The thread starts with the first ask()
/// and reads the store at most ten times per second while somebody waits. If the system cannot start a thread, the
/// callers access the store themselves. A store that does not answer (its process has ended) is not a failure; the
/// timeouts of the waits and the engine's errors remain.
class FailureWatch {
 public:
  FailureWatch(c10::intrusive_ptr<c10d::Store> store, int rank, int size);
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  /// Of this rank among all; a communicator of a subgroup counts otherwise.
  int rank() const;
  bool failed() const;
  /// If a rank has failed, throws a PeerFailure with the rank, its reason and the call in which it was noticed.
  void throw_if_failed(std::string_view seen_in) const;

  /// Called after a wait has taken a while: the thread then reads the store soon and answers roll calls. Never blocks
  /// on the thread.
  void ask() noexcept;
  /// Reports to the others that this rank cannot go on, unless there was a failure before. Waits at most one second for
  /// the store.
  void fail(std::string_view reason) noexcept;
  /// Like fail, for a rank whose wait timed out although the rank itself is sound.
  void give_up(std::string_view reason) noexcept;
  /// Called when a connection of this rank's engine broke, for `reason`, because some rank has ended. It finds the
  /// ranks that do not answer a roll call and reports them to all ranks. If a rank has reported its own failure, that
  /// one counts instead. Takes seconds.
  void lose(std::string_view reason) noexcept;
  /// The other ranks that do not answer a roll call: a rank answers while it waits for others.
  std::vector<int> silent_ranks() noexcept;

 private:
  struct State;
  struct Job;
  static void run(const std::shared_ptr<State>& state) noexcept;
  bool start_thread() noexcept;
  void tell(std::string_view what, std::string_view reason) noexcept;
  void do_job(const std::shared_ptr<Job>& job, Milliseconds patience);

  std::shared_ptr<State> state_;  ///< shared with the thread, which is left behind if it hangs in the store
};

/// "rank 2" or "ranks 1, 2".
std::string ranks_text(const std::vector<int>& ranks);

/// A separate connection to the same store, if this version of torch can make one. A store serves one call at a time,
/// and another caller may be waiting in it.
c10::intrusive_ptr<c10d::Store> own_connection(const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace laconic::plugin
