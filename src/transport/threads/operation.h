#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <string>
#include <vector>

#include "transport/call.h"

namespace laconic::threads {

class World;
struct Lane;
struct Meeting;

/// One rank's handle on a meeting.
class ThreadOperation final : public Operation {
 public:
  ThreadOperation(World& world, Meeting& meeting, std::size_t rank) : world_(world), meeting_(meeting), rank_(rank) {}
  bool test() override;
  void wait(Milliseconds timeout) override;
  void release() noexcept override;

 private:
  World& world_;
  Meeting& meeting_;
  std::size_t rank_;
};

/// One collective: where the ranks that call with the same sequence number meet. It is `gathering` until the last rank
/// has arrived, then `moving` until every destination's share is done. Until then nobody touches a view, so a rank may
/// withdraw from a gathering meeting, which breaks it for the others; one that moves is completed by whoever is there.
/// Guarded by the world's mutex; `state` may be read without it. Reused, so that nothing is allocated after warm-up.
struct Meeting {
  enum class State : std::uint8_t { gathering, moving, done, broken };

  Meeting(World& world, std::size_t ranks);
  void reset(Lane& new_lane, std::uint64_t new_sequence);

  Lane* lane = nullptr;
  std::uint64_t sequence = 0;
  std::atomic<State> state{State::gathering};
  std::vector<Call> calls;                    ///< by rank; the spans of parts lie in the two vectors below
  std::vector<std::vector<Part>> send_parts;  ///< copies: a caller's spans need not outlive its call
  std::vector<std::vector<Part>> receive_parts;
  std::vector<std::uint8_t> arrived;  ///< by rank
  std::vector<std::uint8_t> claimed;  ///< by destination: somebody moves its share, or did
  std::size_t arrivals = 0;
  std::size_t finished = 0;  ///< destinations whose share is done
  std::size_t releases = 0;
  std::string fault;            ///< why it is broken
  bool ranks_disagree = false;  ///< broken by calls that do not match: InvalidConfig rather than TransportError
  std::condition_variable changed;
  std::vector<ThreadOperation> operations;  ///< by rank
};

/// Why rank `rank`'s call does not match the others that have arrived, naming both, or an empty text.
std::string mismatch(const Meeting& meeting, std::size_t rank);

}  // namespace laconic::threads
