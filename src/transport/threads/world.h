#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/place.h"
#include "transport/threads/channel.h"

namespace laconic::threads {

using Counter = std::shared_ptr<std::atomic<std::int64_t>>;

/// What the ranks of one process share. Each rank publishes its call, with its views, in an operation. Once all have
/// arrived, every rank that tests or waits moves bytes: first those for its own rank, then those that no other rank has
/// claimed. So a collective completes even if a rank that started it is still computing. A call that every rank has
/// started completes even after a failure.
class World {
 public:
  /// Throws InvalidConfig unless there are 1 to 1024 ranks. With `copying`, messages may lie on its device.
  explicit World(int ranks, std::shared_ptr<Place> copying = nullptr);

  /// A world of some ranks of another one, `members`, with which it fails.
  World(std::shared_ptr<World> parent, const std::vector<int>& members);

  std::size_t ranks() const { return ranks_; }
  bool takes(Device device) const { return device == Device::cpu || (copying_ && copying_->device() == device); }
  /// A rank's number in messages: that in the whole world.
  std::string name_of(std::size_t rank) const;

  SharedChannel& first_channel() { return *channels_.front(); }
  /// Duplicate number `index` of `parent`. The first rank that asks for it opens it.
  SharedChannel& channel_beside(const SharedChannel& parent, std::size_t index);

  /// The world of these members in split number `index` of a channel. The first rank that asks for it makes it.
  static std::shared_ptr<World> subgroup_of(const std::shared_ptr<World>& whole, const SharedChannel& channel,
                                            std::size_t index, const std::vector<int>& members);

  /// Publishes the rank's call number `sequence` in a channel. Never blocks. Throws TransportError once a rank has
  /// failed.
  ThreadOperation& start(SharedChannel& channel, std::size_t rank, std::uint64_t sequence, const Call& call);

  bool test(SharedOperation& operation, std::size_t rank);
  void wait(SharedOperation& operation, std::size_t rank, Milliseconds timeout);
  void release(SharedOperation& operation, std::size_t rank) noexcept;
  /// Throws a TransportError that names the ranks which have not started the operation.
  [[noreturn]] void throw_timeout(const SharedOperation& operation, Milliseconds timeout) const;

  /// Ends every operation that can no longer complete with a TransportError that gives the reason.
  void fail(std::size_t rank, std::string_view reason) noexcept;
  /// The rank's communicator has been destroyed, so operations of its channel that it has not joined cannot complete.
  void leave(SharedChannel& channel, std::size_t rank) noexcept;
  void throw_if_failed() const;

  /// Counter number `index` of a channel. The first rank that asks for it makes it.
  Counter counter(SharedChannel& channel, std::size_t index);

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// A subgroup of this world, as long as some rank uses it.
  struct Subgroup {
    std::uint64_t channel;
    std::size_t index;
    int first_member;
    std::weak_ptr<World> world;
  };

  void be_told(std::size_t rank, const std::string& failure);
  SharedChannel& open_channel(std::uint64_t parent, std::size_t index);
  void add_operation();
  SharedOperation& operation_at(SharedChannel& channel, std::uint64_t sequence);
  void recycle(SharedOperation& operation);
  void close(SharedChannel& channel);
  void publish(SharedOperation& operation, std::size_t rank, const Call& call);
  void help(Lock& lock, SharedOperation& operation, std::size_t rank);
  void break_up(SharedOperation& operation, std::string fault);
  void break_stranded(SharedChannel& channel, std::size_t rank, const std::string& fault);
  bool finished(const SharedOperation& operation) const;
  std::string timeout_text(const SharedOperation& operation, Milliseconds timeout) const;

  const std::size_t ranks_;
  const std::shared_ptr<Place> copying_;   ///< null: messages lie in CPU memory
  const std::shared_ptr<World> parent_{};  ///< null: this is the whole world
  std::vector<std::size_t> members_{};     ///< ranks of the parent, if there is one
  std::vector<Subgroup> subgroups_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<SharedChannel>> channels_;  ///< those that some rank still uses; the first one stays
  std::uint64_t channels_opened_ = 0;
  std::vector<std::unique_ptr<SharedOperation>> operations_;
  std::vector<SharedOperation*> free_;
  std::atomic<bool> failed_{false};
  std::string failure_;  ///< of the first rank that failed
};

}  // namespace laconic::threads
