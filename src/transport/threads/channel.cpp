#include "transport/threads/channel.h"

#include <algorithm>

#include "transport/threads/world.h"

namespace laconic::threads {
namespace {

constexpr std::size_t kFirstRing = 16;  // a power of two

class ThreadCounter final : public SharedCounter {
 public:
  ThreadCounter(std::shared_ptr<World> world, Counter value) : world_(std::move(world)), value_(std::move(value)) {}

  std::int64_t fetch_add(std::int64_t amount) override {
    world_->throw_if_failed();
    return value_->fetch_add(amount);
  }

 private:
  std::shared_ptr<World> world_;
  Counter value_;
};

}  // namespace

SharedChannel::SharedChannel(std::size_t ranks) : ring(kFirstRing), gone(ranks) {}

void SharedChannel::make_room() {
  if (last - first < ring.size()) return;
  std::vector<SharedOperation*> larger(ring.size() * 2);
  for (std::uint64_t sequence = first; sequence < last; ++sequence) larger[sequence % larger.size()] = at(sequence);
  ring.swap(larger);
}

void SharedChannel::open(SharedOperation& operation) {
  at(operation.sequence) = &operation;
  last = operation.sequence + 1;
}

void SharedChannel::end(const SharedOperation& operation) {
  at(operation.sequence) = nullptr;
  while (first < last && at(first) == nullptr) ++first;
}

Channel::Channel(std::shared_ptr<World> world, std::size_t rank) : Channel(world, world->first_channel(), rank) {}

Channel::Channel(std::shared_ptr<World> world, SharedChannel& shared, std::size_t rank)
    : world_(std::move(world)), shared_(shared), rank_(rank) {}

Channel::~Channel() { world_->leave(shared_, rank_); }

int Channel::size() const { return static_cast<int>(world_->ranks()); }

bool Channel::takes(Device device) const { return world_->takes(device); }

ThreadOperation& Channel::start(const Call& call) {
  ThreadOperation& operation = world_->start(shared_, rank_, next_sequence_, call);
  ++next_sequence_;
  return operation;
}

std::unique_ptr<Channel> Channel::duplicate() {
  auto made = std::make_unique<Channel>(world_, world_->channel_beside(shared_, duplicates_made_), rank_);
  ++duplicates_made_;
  return made;
}

std::unique_ptr<Channel> Channel::subgroup(const std::vector<int>& members) {
  const auto own = std::ranges::find(members, rank()) - members.begin();
  auto made = std::make_unique<Channel>(World::subgroup_of(world_, shared_, splits_made_, members),
                                        static_cast<std::size_t>(own));
  ++splits_made_;
  return made;
}

std::unique_ptr<SharedCounter> Channel::make_counter() {
  auto made = std::make_unique<ThreadCounter>(world_, world_->counter(shared_, counters_made_));
  ++counters_made_;
  return made;
}

void Channel::fail(std::string_view reason) noexcept { world_->fail(rank_, reason); }

}  // namespace laconic::threads
