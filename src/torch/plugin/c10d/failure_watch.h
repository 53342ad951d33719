#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>
#include <string_view>

#include "laconic/communicator.h"

namespace laconic::plugin {

/// How ranks of a c10d group tell each other that one cannot go on: a key of the group's store, which the first that
/// fails writes. A thread of its own talks to the store, so that nobody's wait hangs on it; it starts with the first
/// question, and asks at most ten times a second while somebody wants to know. A store that does not answer (its host
/// has ended) is no failure: the waits' own timeouts and the engine's errors remain.
class FailureWatch {
 public:
  FailureWatch(c10::intrusive_ptr<c10d::Store> store, int rank);
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  bool failed() const;
  /// PeerFailure with the rank, its reason and the call in which it was seen.
  void throw_if_failed(std::string_view seen_in) const;

  /// Somebody has waited for a while: look at the store soon. Never blocks.
  void ask() noexcept;
  /// Looks at the store and waits for the answer, for as long as `patience`.
  void look(Milliseconds patience) noexcept;
  /// Tells the others, unless there was a failure already. Waits a second at most for the store to take it.
  void fail(std::string_view reason) noexcept;

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state) noexcept;
  void start_thread();

  std::shared_ptr<State> state_;  ///< the thread's too: one that hangs in the store is left behind
};

/// A connection of its own to the same store where this torch can make one: a store serves one call at a time, and
/// somebody may wait in it.
c10::intrusive_ptr<c10d::Store> own_connection(const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace laconic::plugin
