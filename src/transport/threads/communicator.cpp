#include "transport/threads/communicator.h"

#include "laconic/error.h"
#include "laconic/threads.h"

namespace laconic::threads {
namespace {

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

ThreadCommunicator::ThreadCommunicator(std::shared_ptr<World> world, Lane& lane, std::size_t rank)
    : world_(std::move(world)), lane_(lane), rank_(rank) {}

ThreadCommunicator::~ThreadCommunicator() { world_->leave(lane_, rank_); }

Handle ThreadCommunicator::start(const Call& call) {
  Operation* operation = world_->start(lane_, rank_, next_sequence_, call);
  ++next_sequence_;
  return {operation, timeout()};
}

Handle ThreadCommunicator::all_reduce(View<float> values, Reduction reduction) {
  return start(all_reduce_call(values, reduction));
}

Handle ThreadCommunicator::reduce_scatter(View<const float> values, View<float> chunk) {
  return start(reduce_scatter_call(size(), values, chunk));
}

Handle ThreadCommunicator::all_gather(View<const std::byte> mine, View<std::byte> all) {
  return start(all_gather_call(size(), mine, all));
}

Handle ThreadCommunicator::all_gather_varying(View<const std::byte> mine, View<std::byte> all,
                                              std::span<const Part> parts) {
  return start(all_gather_varying_call(size(), rank(), mine, all, parts));
}

Handle ThreadCommunicator::all_to_all(View<const std::byte> send, View<std::byte> receive) {
  return start(all_to_all_call(size(), send, receive));
}

Handle ThreadCommunicator::all_to_all_varying(View<const std::byte> send, std::span<const Part> send_parts,
                                              View<std::byte> receive, std::span<const Part> receive_parts) {
  return start(all_to_all_varying_call(size(), rank(), send, send_parts, receive, receive_parts));
}

Handle ThreadCommunicator::broadcast(View<std::byte> bytes, int root) {
  return start(broadcast_call(size(), bytes, root));
}

Handle ThreadCommunicator::barrier() { return start(Call{}); }

std::unique_ptr<Communicator> ThreadCommunicator::duplicate() {
  auto communicator = std::make_unique<ThreadCommunicator>(world_, world_->lane_beside(lane_, duplicates_made_), rank_);
  ++duplicates_made_;
  communicator->set_timeout(timeout());
  communicator->barrier().wait();  // from here on every rank has it
  return communicator;
}

std::unique_ptr<SharedCounter> ThreadCommunicator::make_counter() {
  auto counter = std::make_unique<ThreadCounter>(world_, world_->counter(lane_, counters_made_));
  ++counters_made_;
  barrier().wait();  // from here on every rank holds it
  return counter;
}

void ThreadCommunicator::fail(std::string_view reason) noexcept { world_->fail(rank_, reason); }

std::string ThreadCommunicator::description() const {
  return "threads, " + std::to_string(size()) + (size() == 1 ? " rank" : " ranks");
}

}  // namespace laconic::threads

namespace laconic {

std::vector<std::unique_ptr<Communicator>> thread_communicators(int ranks) {
  if (ranks < 1 || ranks > kMostRanks) {
    throw InvalidConfig("ranks must be in 1.." + std::to_string(kMostRanks) + ", got " + std::to_string(ranks) +
                        ": ask for one per worker");
  }
  const auto count = static_cast<std::size_t>(ranks);
  auto world = std::make_shared<threads::World>(count);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (std::size_t rank = 0; rank < count; ++rank) {
    communicators.push_back(std::make_unique<threads::ThreadCommunicator>(world, world->first_lane(), rank));
  }
  return communicators;
}

}  // namespace laconic
