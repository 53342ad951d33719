#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/communicator.h"

namespace laconic::plugin {

/// How ranks of a c10d group tell each other that one cannot go on: a key of the group's store, which the first that
/// fails writes. A thread of its own talks to the store, so that nobody's wait hangs on it; it starts with the first
/// question, and asks at most ten times a second while somebody wants to know. Where the system has no thread for it,
/// the callers talk to the store themselves. A store that does not answer (its host has ended) is no failure: the
/// waits' own timeouts and the engine's errors remain.
class FailureWatch {
 public:
  FailureWatch(c10::intrusive_ptr<c10d::Store> store, int rank, int size);
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  bool failed() const;
  /// PeerFailure with the rank, its reason and the call in which it was seen.
  void throw_if_failed(std::string_view seen_in) const;

  /// Somebody has waited for a while: look at the store soon, and answer a roll call. Never blocks on the thread.
  void ask() noexcept;
  /// This rank cannot go on: tells the others, unless there was a failure already. Waits a second at most for the store
  /// to take it.
  void fail(std::string_view reason) noexcept;
  /// As fail, of a rank that has waited in vain: nothing is wrong with it.
  void give_up(std::string_view reason) noexcept;
  /// A connection of this rank's engine broke, as `reason` says, because some rank has ended. All ranks are told which:
  /// those that do not answer a roll call. A failure that a rank has told itself counts instead. Takes seconds.
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

  std::shared_ptr<State> state_;  ///< the thread's too: one that hangs in the store is left behind
};

/// "rank 2" or "ranks 1, 2".
std::string ranks_text(const std::vector<int>& ranks);

/// A connection of its own to the same store where this torch can make one: a store serves one call at a time, and
/// somebody may wait in it.
c10::intrusive_ptr<c10d::Store> own_connection(const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace laconic::plugin
