#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <string>
#include <vector>

#include "laconic/communicator.h"

namespace laconic::threads {

class World;
struct SharedChannel;
struct SharedOperation;

/// One rank's part in a shared operation. The rank's handle holds it.
class ThreadOperation final : public Operation {
 public:
  ThreadOperation(World& world, SharedOperation& shared, std::size_t rank)
      : world_(world), shared_(shared), rank_(rank) {}
  bool test() override;
  void wait(Milliseconds timeout) override;
  void release() noexcept override;
  /// What wait throws after the timeout.
  [[noreturn]] void throw_timeout(Milliseconds timeout) const;

 private:
  World& world_;
  SharedOperation& shared_;
  std::size_t rank_;
};

/// One collective of all ranks, which call it with the same sequence number. It is `gathering` until the last rank has
/// arrived, then `moving` until every destination has its bytes. Before it moves, nobody touches a view, so a rank may
/// withdraw from a gathering operation; that breaks it for the others. A moving operation is completed by the ranks
/// that test it or wait for it. Guarded by the world's mutex; `state` may be read without it. Operations are reused, so
/// nothing is allocated after warm-up.
struct SharedOperation {
  enum class State : std::uint8_t { gathering, moving, done, broken };

  SharedOperation(World& its_world, std::size_t ranks);
  void reset(SharedChannel& new_channel, std::uint64_t new_sequence);

  const World& world;
  SharedChannel* channel = nullptr;
  std::uint64_t sequence = 0;
  std::atomic<State> state{State::gathering};
  std::vector<Call> calls;                          ///< by rank; the spans of ranges lie in the two vectors below
  std::vector<std::vector<ByteRange>> send_ranges;  ///< copies: a caller's spans need not outlive its call
  std::vector<std::vector<ByteRange>> receive_ranges;
  std::vector<std::uint8_t> arrived;  ///< by rank
  std::vector<std::uint8_t> claimed;  ///< by destination: whether a thread moves or has moved its bytes
  std::size_t arrivals = 0;
  std::size_t finished = 0;  ///< destinations that have their bytes
  std::size_t releases = 0;
  std::string fault;            ///< why it is broken
  bool ranks_disagree = false;  ///< broken by calls that do not match: InvalidConfig rather than TransportError
  std::condition_variable changed;
  std::vector<ThreadOperation> by_rank;
};

/// Why rank `rank`'s call does not match the calls that have arrived. The text names both calls; it is empty if all
/// match.
std::string mismatch(const SharedOperation& operation, std::size_t rank);

}  // namespace laconic::threads
