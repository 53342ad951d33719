#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "transport/threads/meeting.h"

namespace laconic::threads {

using Counter = std::shared_ptr<std::atomic<std::int64_t>>;

/// The calls of one communicator and those of its duplicates are ordered among themselves only: a lane each. Meetings
/// in flight stand in a ring by sequence number: [first, last) have been opened, a null one has ended.
struct Lane {
  std::uint64_t id = 0;
  std::uint64_t parent = 0;  ///< the lane that it is a duplicate of
  std::size_t index = 0;     ///< its how-many-eth
  std::vector<Meeting*> ring;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::vector<std::string> gone;  ///< by rank: why it takes part no more, or empty
  std::size_t departures = 0;
  std::vector<std::weak_ptr<std::atomic<std::int64_t>>> counters;

  Meeting*& at(std::uint64_t sequence) { return ring[sequence % ring.size()]; }
};

/// What the ranks of one process share. Each rank publishes its views at a meeting; once all have arrived, whoever
/// tests or waits moves bytes: its own share first, then shares that nobody has claimed, so that a collective completes
/// though a rank that started it computes on. A call that every rank has started completes even after a failure.
class World {
 public:
  explicit World(std::size_t ranks);

  std::size_t ranks() const { return ranks_; }

  Lane& first_lane() { return *lanes_.front(); }
  /// Lane number `index` of those that begin beside `parent`; the first rank that asks opens it.
  Lane& lane_beside(const Lane& parent, std::size_t index);

  /// Publishes the rank's call number `sequence` in a lane. Never blocks. TransportError once a rank has failed.
  Operation* start(Lane& lane, std::size_t rank, std::uint64_t sequence, const Call& call);

  bool test(Meeting& meeting, std::size_t rank);
  void wait(Meeting& meeting, std::size_t rank, Milliseconds timeout);
  void release(Meeting& meeting, std::size_t rank) noexcept;

  /// Every meeting that cannot complete any more ends with a TransportError that says so.
  void fail(std::size_t rank, std::string_view reason) noexcept;
  /// The rank's communicator is gone: meetings of its lane that it has not joined cannot complete.
  void leave(Lane& lane, std::size_t rank) noexcept;
  void throw_if_failed() const;

  /// Counter number `index` of a lane; the first rank that asks makes it.
  Counter counter(Lane& lane, std::size_t index);

 private:
  using Lock = std::unique_lock<std::mutex>;

  Lane& open_lane(std::uint64_t parent, std::size_t index);
  void add_meeting();
  Meeting& meeting_of(Lane& lane, std::uint64_t sequence);
  void recycle(Meeting& meeting);
  void close(Lane& lane);
  void publish(Meeting& meeting, std::size_t rank, const Call& call);
  void help(Lock& lock, Meeting& meeting, std::size_t rank);
  void break_up(Meeting& meeting, std::string fault);
  void break_stranded(Lane& lane, std::size_t rank, const std::string& fault);
  bool finished(const Meeting& meeting) const;
  std::string timeout_text(const Meeting& meeting, Milliseconds timeout) const;

  const std::size_t ranks_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> lanes_;  ///< those that some rank still uses; the first one stays
  std::uint64_t lanes_opened_ = 0;
  std::vector<std::unique_ptr<Meeting>> meetings_;
  std::vector<Meeting*> free_;
  std::atomic<bool> failed_{false};
  std::string failure_;  ///< of the first rank that failed
};

}  // namespace laconic::threads
