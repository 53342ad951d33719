#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/threads/operation.h"

namespace laconic::threads {

class World;

/// The part of a channel that all ranks share. Operations in flight are in a ring, indexed by sequence number:
/// [first, last) have been opened, and a null entry has ended. Guarded by the world's mutex.
struct SharedChannel {
  explicit SharedChannel(std::size_t ranks);

  SharedOperation*& at(std::uint64_t sequence) { return ring[sequence % ring.size()]; }
  /// Room for one more operation in flight.
  void make_room();
  void open(SharedOperation& operation);
  void end(const SharedOperation& operation);

  std::uint64_t id = 0;
  std::uint64_t parent = 0;  ///< the channel that it is a duplicate of
  std::size_t index = 0;     ///< its number among the parent's duplicates
  std::vector<SharedOperation*> ring;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::vector<std::string> gone;  ///< by rank: why it no longer takes part, or empty
  std::size_t departures = 0;
  std::vector<std::weak_ptr<std::atomic<std::int64_t>>> counters;
};

/// One rank's end of a channel. Nothing here blocks.
class Channel {
 public:
  /// The first channel of a world.
  Channel(std::shared_ptr<World> world, std::size_t rank);
  Channel(std::shared_ptr<World> world, SharedChannel& shared, std::size_t rank);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int rank() const { return static_cast<int>(rank_); }
  int size() const;
  bool takes(Device device) const;

  ThreadOperation& start(const Call& call);
  /// This rank's end of a duplicate. The n-th call of every rank returns the same duplicate; the first rank to call
  /// opens it.
  std::unique_ptr<Channel> duplicate();
  /// This rank's end of the first channel of a world of these ranks, of which it is one. The n-th call of every rank
  /// belongs to the same split.
  std::unique_ptr<Channel> subgroup(const std::vector<int>& members);
  /// The n-th call of every rank returns the same counter; the first rank to call makes it.
  std::unique_ptr<SharedCounter> make_counter();
  void fail(std::string_view reason) noexcept;

 private:
  std::shared_ptr<World> world_;
  SharedChannel& shared_;
  std::size_t rank_;
  std::uint64_t next_sequence_ = 0;
  std::size_t duplicates_made_ = 0;
  std::size_t splits_made_ = 0;
  std::size_t counters_made_ = 0;
};

}  // namespace laconic::threads
