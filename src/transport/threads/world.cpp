#include "transport/threads/world.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "transport/deadline.h"
#include "transport/failure.h"
#include "transport/threads/movement.h"

namespace laconic::threads {
namespace {

using State = Meeting::State;

/// How long a wait looks before it sleeps: ranks that run in step arrive within this.
constexpr auto kSpin = std::chrono::microseconds(50);

constexpr std::size_t kFirstRing = 16;  // a power of two

std::string operation_text(const Meeting& meeting, const Call& call) {
  return describe(call) + " (operation " + std::to_string(meeting.sequence) + ")";
}

}  // namespace

World::World(std::size_t ranks) : ranks_(ranks) { open_lane(0, 0); }

Lane& World::open_lane(std::uint64_t parent, std::size_t index) {
  auto lane = std::make_unique<Lane>();
  lane->id = lanes_opened_++;
  lane->parent = parent;
  lane->index = index;
  lane->ring.resize(kFirstRing);
  lane->gone.resize(ranks_);
  lanes_.push_back(std::move(lane));
  // Ranks that call one after another are at two meetings of a lane at most: a step allocates nothing however far one
  // rank is ahead of another.
  while (meetings_.size() < 2 * lanes_.size()) add_meeting();
  return *lanes_.back();
}

void World::add_meeting() {
  meetings_.push_back(std::make_unique<Meeting>(*this, ranks_));
  free_.reserve(meetings_.size());  // so that giving back never allocates
  free_.push_back(meetings_.back().get());
}

Lane& World::lane_beside(const Lane& parent, std::size_t index) {
  std::lock_guard lock(mutex_);
  for (auto lane = lanes_.begin() + 1; lane != lanes_.end(); ++lane) {
    if ((*lane)->parent == parent.id && (*lane)->index == index) return **lane;
  }
  return open_lane(parent.id, index);
}

Meeting& World::meeting_of(Lane& lane, std::uint64_t sequence) {
  if (sequence < lane.last) return *lane.at(sequence);
  if (sequence - lane.first == lane.ring.size()) {
    Lane larger;
    larger.ring.resize(lane.ring.size() * 2);
    for (std::uint64_t s = lane.first; s < lane.last; ++s) larger.at(s) = lane.at(s);
    lane.ring.swap(larger.ring);
  }
  if (free_.empty()) add_meeting();
  Meeting* meeting = free_.back();
  free_.pop_back();
  meeting->reset(lane, sequence);
  lane.at(sequence) = meeting;
  lane.last = sequence + 1;
  return *meeting;
}

void World::recycle(Meeting& meeting) {
  Lane& lane = *meeting.lane;
  lane.at(meeting.sequence) = nullptr;
  while (lane.first < lane.last && lane.at(lane.first) == nullptr) ++lane.first;
  free_.push_back(&meeting);
}

void World::publish(Meeting& meeting, std::size_t rank, const Call& call) {
  meeting.send_parts[rank].assign(call.send_parts.begin(), call.send_parts.end());
  meeting.receive_parts[rank].assign(call.receive_parts.begin(), call.receive_parts.end());
  meeting.calls[rank] = call;
  meeting.calls[rank].send_parts = meeting.send_parts[rank];
  meeting.calls[rank].receive_parts = meeting.receive_parts[rank];
  meeting.arrived[rank] = 1;
  ++meeting.arrivals;
}

Operation* World::start(Lane& lane, std::size_t rank, std::uint64_t sequence, const Call& call) {
  std::lock_guard lock(mutex_);
  if (failed_) throw PeerFailure(failure_ + "; " + describe(call) + " was not started");
  Meeting& meeting = meeting_of(lane, sequence);
  publish(meeting, rank, call);
  if (meeting.state == State::gathering) {
    const auto gone = std::ranges::find_if(lane.gone, [](const std::string& why) { return !why.empty(); });
    if (std::string text = mismatch(meeting, rank); !text.empty()) {
      meeting.ranks_disagree = true;
      break_up(meeting, std::move(text));
    } else if (gone != lane.gone.end() && meeting.arrived[static_cast<std::size_t>(gone - lane.gone.begin())] == 0) {
      break_up(meeting, *gone);
    } else if (meeting.arrivals == ranks_) {
      meeting.state = State::moving;
      meeting.changed.notify_all();
    }
  }
  return &meeting.operations[rank];
}

void World::help(Lock& lock, Meeting& meeting, std::size_t rank) {
  for (std::size_t i = 0; i < ranks_ && meeting.state == State::moving; ++i) {
    const std::size_t destination = (rank + i) % ranks_;
    if (meeting.claimed[destination] != 0) continue;
    meeting.claimed[destination] = 1;
    lock.unlock();
    move_to(meeting.calls, destination);
    lock.lock();
    if (++meeting.finished == ranks_) {
      meeting.state = State::done;
      meeting.changed.notify_all();
    }
  }
}

/// True if done; throws if it never will be.
bool World::finished(const Meeting& meeting) const {
  if (meeting.state == State::done) return true;
  if (meeting.state != State::broken) return false;
  if (meeting.ranks_disagree) throw InvalidConfig(meeting.fault);
  throw PeerFailure(meeting.fault);
}

bool World::test(Meeting& meeting, std::size_t rank) {
  if (meeting.state == State::gathering) return false;
  Lock lock(mutex_);
  help(lock, meeting, rank);
  return finished(meeting);
}

void World::wait(Meeting& meeting, std::size_t rank, Milliseconds timeout) {
  const auto deadline = deadline_after(timeout);
  const auto spin_end = std::min(deadline, Clock::now() + kSpin);
  while (meeting.state == State::gathering && Clock::now() < spin_end) std::this_thread::yield();
  Lock lock(mutex_);
  for (;;) {
    help(lock, meeting, rank);
    meeting.changed.wait(lock, [&] { return meeting.state != State::moving; });  // others move the last shares
    if (finished(meeting)) return;
    const bool late = meeting.changed.wait_until(lock, deadline) == std::cv_status::timeout;
    if (late && meeting.state == State::gathering) throw TransportError(timeout_text(meeting, timeout));
  }
}

std::string World::timeout_text(const Meeting& meeting, Milliseconds timeout) const {
  std::string missing;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (meeting.arrived[rank] == 0) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  const auto present = std::ranges::find(meeting.arrived, std::uint8_t{1}) - meeting.arrived.begin();
  return operation_text(meeting, meeting.calls[static_cast<std::size_t>(present)]) + " did not end within " +
         std::to_string(timeout.count()) + " ms: rank " + missing +
         " has not started it; see what it does, or raise the timeout";
}

void World::release(Meeting& meeting, std::size_t rank) noexcept {
  Lock lock(mutex_);
  if (meeting.state == State::gathering) {
    const char* why = std::uncaught_exceptions() > 0 ? ", as an exception ended its step" : " before it was done";
    break_up(meeting,
             "rank " + std::to_string(rank) + " withdrew from " + operation_text(meeting, meeting.calls[rank]) + why);
  }
  help(lock, meeting, rank);
  meeting.changed.wait(lock, [&] { return meeting.state != State::moving; });
  if (++meeting.releases == ranks_) recycle(meeting);
}

void World::break_up(Meeting& meeting, std::string fault) {
  meeting.fault = std::move(fault);
  meeting.state = State::broken;
  meeting.changed.notify_all();
}

/// Breaks the meetings that wait for a rank which will not come.
void World::break_stranded(Lane& lane, std::size_t rank, const std::string& fault) {
  for (std::uint64_t sequence = lane.first; sequence < lane.last; ++sequence) {
    Meeting* meeting = lane.at(sequence);
    if (meeting == nullptr || meeting->state != State::gathering) continue;
    if (failed_ || meeting->arrived[rank] == 0) break_up(*meeting, fault);
  }
}

void World::fail(std::size_t rank, std::string_view reason) noexcept {
  std::lock_guard lock(mutex_);
  if (failed_) return;
  failure_ = "rank " + std::to_string(rank) + " failed: " + std::string(reason);
  failed_ = true;
  for (auto& lane : lanes_) break_stranded(*lane, rank, failure_);
}

void World::leave(Lane& lane, std::size_t rank) noexcept {
  std::lock_guard lock(mutex_);
  lane.gone[rank] = "rank " + std::to_string(rank) + " has ended and takes part in no further operation";
  break_stranded(lane, rank, lane.gone[rank]);
  if (++lane.departures == ranks_ && &lane != lanes_.front().get()) close(lane);
}

void World::close(Lane& lane) {
  for (Meeting* meeting : lane.ring) {
    if (meeting != nullptr) free_.push_back(meeting);  // broken, and some rank never came
  }
  std::erase_if(lanes_, [&](const auto& each) { return each.get() == &lane; });
}

void World::throw_if_failed() const {
  if (!failed_) return;
  std::lock_guard lock(mutex_);
  throw PeerFailure(failure_);
}

Counter World::counter(Lane& lane, std::size_t index) {
  std::lock_guard lock(mutex_);
  if (lane.counters.size() <= index) lane.counters.resize(index + 1);
  Counter counter = lane.counters[index].lock();
  if (!counter) lane.counters[index] = counter = std::make_shared<std::atomic<std::int64_t>>(0);
  return counter;
}

}  // namespace laconic::threads
