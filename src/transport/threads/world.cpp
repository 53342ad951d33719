#include "transport/threads/world.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "laconic/threads.h"
#include "transport/deadline.h"
#include "transport/failure.h"
#include "transport/threads/movement.h"

namespace laconic::threads {
namespace {

using State = SharedOperation::State;

/// How long a wait looks before it sleeps: ranks that run in step arrive within this.
constexpr auto kSpin = std::chrono::microseconds(50);

std::size_t checked(int ranks) {
  if (ranks >= 1 && ranks <= kMostRanks) return static_cast<std::size_t>(ranks);
  throw InvalidConfig("ranks must be in 1.." + std::to_string(kMostRanks) + ", got " + std::to_string(ranks) +
                      ": ask for one per worker");
}

std::string operation_text(const SharedOperation& operation, const Call& call) {
  return describe(call) + " (operation " + std::to_string(operation.sequence) + ")";
}

}  // namespace

World::World(int ranks, std::shared_ptr<Place> copying) : ranks_(checked(ranks)), copying_(std::move(copying)) {
  open_channel(0, 0);
}

World::World(std::shared_ptr<World> parent, const std::vector<int>& members)
    : ranks_(members.size()),
      copying_(parent->copying_),
      parent_(std::move(parent)),
      members_(members.begin(), members.end()) {
  open_channel(0, 0);
}

std::shared_ptr<World> World::subgroup_of(const std::shared_ptr<World>& whole, const SharedChannel& channel,
                                          std::size_t index, const std::vector<int>& members) {
  std::lock_guard lock(whole->mutex_);
  if (whole->failed_) throw PeerFailure(whole->failure_ + "; no subgroup was made");
  std::erase_if(whole->subgroups_, [](const Subgroup& each) { return each.world.expired(); });
  for (const Subgroup& each : whole->subgroups_) {
    if (each.channel != channel.id || each.index != index || each.first_member != members.front()) continue;
    if (auto found = each.world.lock()) return found;
  }
  auto made = std::make_shared<World>(whole, members);
  whole->subgroups_.push_back({channel.id, index, members.front(), made});
  return made;
}

std::string World::name_of(std::size_t rank) const {
  return parent_ ? parent_->name_of(members_[rank]) : std::to_string(rank);
}

SharedChannel& World::open_channel(std::uint64_t parent, std::size_t index) {
  auto channel = std::make_unique<SharedChannel>(ranks_);
  channel->id = channels_opened_++;
  channel->parent = parent;
  channel->index = index;
  channels_.push_back(std::move(channel));
  // Ranks that call one after another are at two operations of a channel at most: a step allocates nothing however far
  // one rank is ahead of another.
  while (operations_.size() < 2 * channels_.size()) add_operation();
  return *channels_.back();
}

void World::add_operation() {
  operations_.push_back(std::make_unique<SharedOperation>(*this, ranks_));
  free_.reserve(operations_.size());  // so that giving back never allocates
  free_.push_back(operations_.back().get());
}

SharedChannel& World::channel_beside(const SharedChannel& parent, std::size_t index) {
  std::lock_guard lock(mutex_);
  for (auto channel = channels_.begin() + 1; channel != channels_.end(); ++channel) {
    if ((*channel)->parent == parent.id && (*channel)->index == index) return **channel;
  }
  return open_channel(parent.id, index);
}

SharedOperation& World::operation_at(SharedChannel& channel, std::uint64_t sequence) {
  if (sequence < channel.last) return *channel.at(sequence);
  channel.make_room();
  if (free_.empty()) add_operation();
  SharedOperation& operation = *free_.back();
  free_.pop_back();
  operation.reset(channel, sequence);
  channel.open(operation);
  return operation;
}

void World::recycle(SharedOperation& operation) {
  operation.channel->end(operation);
  free_.push_back(&operation);
}

void World::publish(SharedOperation& operation, std::size_t rank, const Call& call) {
  operation.send_ranges[rank].assign(call.send_ranges.begin(), call.send_ranges.end());
  operation.receive_ranges[rank].assign(call.receive_ranges.begin(), call.receive_ranges.end());
  operation.calls[rank] = call;
  operation.calls[rank].send_ranges = operation.send_ranges[rank];
  operation.calls[rank].receive_ranges = operation.receive_ranges[rank];
  operation.arrived[rank] = 1;
  ++operation.arrivals;
}

ThreadOperation& World::start(SharedChannel& channel, std::size_t rank, std::uint64_t sequence, const Call& call) {
  std::lock_guard lock(mutex_);
  if (failed_) throw PeerFailure(failure_ + "; " + describe(call) + " was not started");
  SharedOperation& operation = operation_at(channel, sequence);
  publish(operation, rank, call);
  if (operation.state == State::gathering) {
    const auto gone = std::ranges::find_if(channel.gone, [](const std::string& why) { return !why.empty(); });
    if (std::string text = mismatch(operation, rank); !text.empty()) {
      operation.ranks_disagree = true;
      break_up(operation, std::move(text));
    } else if (gone != channel.gone.end() &&
               operation.arrived[static_cast<std::size_t>(gone - channel.gone.begin())] == 0) {
      break_up(operation, *gone);
    } else if (operation.arrivals == ranks_) {
      operation.state = State::moving;
      operation.changed.notify_all();
    }
  }
  return operation.by_rank[rank];
}

void World::help(Lock& lock, SharedOperation& operation, std::size_t rank) {
  for (std::size_t i = 0; i < ranks_ && operation.state == State::moving; ++i) {
    const std::size_t destination = (rank + i) % ranks_;
    if (operation.claimed[destination] != 0) continue;
    operation.claimed[destination] = 1;
    lock.unlock();
    std::string fault;  // of a device
    try {
      move_to(operation.calls, destination, copying_ ? copying_->queue() : nullptr);
    } catch (const std::exception& error) {
      fault = error.what();
    }
    lock.lock();
    if (!fault.empty()) operation.fault = std::move(fault);
    if (++operation.finished == ranks_) {
      operation.state = operation.fault.empty() ? State::done : State::broken;
      operation.changed.notify_all();
    }
  }
}

/// True if done; throws if it never will be.
bool World::finished(const SharedOperation& operation) const {
  if (operation.state == State::done) return true;
  if (operation.state != State::broken) return false;
  if (operation.ranks_disagree) throw InvalidConfig(operation.fault);
  throw PeerFailure(operation.fault);
}

bool World::test(SharedOperation& operation, std::size_t rank) {
  if (operation.state == State::gathering) return false;
  Lock lock(mutex_);
  help(lock, operation, rank);
  return finished(operation);
}

void World::wait(SharedOperation& operation, std::size_t rank, Milliseconds timeout) {
  const auto deadline = deadline_after(timeout);
  const auto spin_end = std::min(deadline, Clock::now() + kSpin);
  while (operation.state == State::gathering && Clock::now() < spin_end) std::this_thread::yield();
  Lock lock(mutex_);
  for (;;) {
    help(lock, operation, rank);
    operation.changed.wait(lock, [&] { return operation.state != State::moving; });  // others move the last bytes
    if (finished(operation)) return;
    const bool late = operation.changed.wait_until(lock, deadline) == std::cv_status::timeout;
    if (late && operation.state == State::gathering) throw TransportError(timeout_text(operation, timeout));
  }
}

std::string World::timeout_text(const SharedOperation& operation, Milliseconds timeout) const {
  std::string missing;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (operation.arrived[rank] == 0) missing += (missing.empty() ? "" : ", ") + name_of(rank);
  }
  const auto present = std::ranges::find(operation.arrived, std::uint8_t{1}) - operation.arrived.begin();
  return operation_text(operation, operation.calls[static_cast<std::size_t>(present)]) + " did not end within " +
         std::to_string(timeout.count()) + " ms: rank " + missing +
         " has not started it; see what it does, or raise the timeout";
}

void World::throw_timeout(const SharedOperation& operation, Milliseconds timeout) const {
  std::lock_guard lock(mutex_);
  throw TransportError(timeout_text(operation, timeout));
}

void World::release(SharedOperation& operation, std::size_t rank) noexcept {
  Lock lock(mutex_);
  if (operation.state == State::gathering) {
    const char* why = std::uncaught_exceptions() > 0 ? ", as an exception ended its step" : " before it was done";
    const std::string text = operation_text(operation, operation.calls[rank]);
    break_up(operation, "rank " + name_of(rank) + " withdrew from " + text + why);
  }
  help(lock, operation, rank);
  operation.changed.wait(lock, [&] { return operation.state != State::moving; });
  if (++operation.releases == ranks_) recycle(operation);
}

void World::break_up(SharedOperation& operation, std::string fault) {
  operation.fault = std::move(fault);
  operation.state = State::broken;
  operation.changed.notify_all();
}

/// Breaks the operations that wait for a rank which will not come.
void World::break_stranded(SharedChannel& channel, std::size_t rank, const std::string& fault) {
  for (std::uint64_t sequence = channel.first; sequence < channel.last; ++sequence) {
    SharedOperation* operation = channel.at(sequence);
    if (operation == nullptr || operation->state != State::gathering) continue;
    if (failed_ || operation->arrived[rank] == 0) break_up(*operation, fault);
  }
}

void World::fail(std::size_t rank, std::string_view reason) noexcept {
  if (parent_) return parent_->fail(members_[rank], reason);
  be_told(rank, "rank " + std::to_string(rank) + " failed: " + std::string(reason));
}

/// The whole world tells its subgroups, never the other way round: locks are taken in one order. After a failure every
/// operation that gathers is broken, whoever it waits for.
void World::be_told(std::size_t rank, const std::string& failure) {
  std::lock_guard lock(mutex_);
  if (failed_) return;
  failure_ = failure;
  failed_ = true;
  for (auto& channel : channels_) break_stranded(*channel, rank, failure_);
  for (const Subgroup& each : subgroups_) {
    if (const auto subgroup = each.world.lock()) subgroup->be_told(0, failure);
  }
}

void World::leave(SharedChannel& channel, std::size_t rank) noexcept {
  std::lock_guard lock(mutex_);
  channel.gone[rank] = "rank " + name_of(rank) + " has ended and takes part in no further operation";
  break_stranded(channel, rank, channel.gone[rank]);
  if (++channel.departures == ranks_ && &channel != channels_.front().get()) close(channel);
}

void World::close(SharedChannel& channel) {
  for (SharedOperation* operation : channel.ring) {
    if (operation != nullptr) free_.push_back(operation);  // broken, and some rank never came
  }
  std::erase_if(channels_, [&](const auto& each) { return each.get() == &channel; });
}

void World::throw_if_failed() const {
  if (!failed_) return;
  std::lock_guard lock(mutex_);
  throw PeerFailure(failure_);
}

Counter World::counter(SharedChannel& channel, std::size_t index) {
  std::lock_guard lock(mutex_);
  if (channel.counters.size() <= index) channel.counters.resize(index + 1);
  Counter counter = channel.counters[index].lock();
  if (!counter) channel.counters[index] = counter = std::make_shared<std::atomic<std::int64_t>>(0);
  return counter;
}

}  // namespace laconic::threads
