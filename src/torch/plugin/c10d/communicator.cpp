#include "torch/plugin/c10d/communicator.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <exception>

#include "laconic/error.h"
#include "transport/members.h"

namespace laconic::plugin {
namespace {

c10::intrusive_ptr<c10d::ProcessGroup> required(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  if (group == nullptr)
    throw InvalidConfig("there is no process group: call torch.distributed.init_process_group first");
  return group;
}

class StoreCounter final : public SharedCounter {
 public:
  StoreCounter(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<FailureWatch> watch, std::string key, int ranks)
      : store_(std::move(store)), watch_(std::move(watch)), key_(std::move(key)), ranks_(ranks) {}

  /// The last rank to end it removes what it left in the store.
  ~StoreCounter() override {
    if (watch_->failed()) return;
    try {
      const std::string ends = key_ + "/ends";
      if (store_->add(ends, 1) != ranks_) return;
      for (const std::string& key : {key_, ends}) store_->deleteKey(key);
    } catch (...) {
      // The store has ended, and with it all that it held.
    }
  }

  std::int64_t fetch_add(std::int64_t amount) override {
    watch_->throw_if_failed("fetch_add of a shared counter");
    try {
      return store_->add(key_, amount) - amount;
    } catch (const std::exception& error) {
      const std::string what = error.what();
      const std::string text =
          "fetch_add of a shared counter: the group's store does not answer: " + what.substr(0, what.find('\n'));
      watch_->fail(text);
      throw TransportError(text + "; its host, torchrun's agent or rank 0, has ended or is out of reach");
    }
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<FailureWatch> watch_;
  std::string key_;
  int ranks_;
};

}  // namespace

C10dCommunicator::C10dCommunicator(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                   const c10::intrusive_ptr<c10d::Store>& store, GroupMaker make_group,
                                   StagingDevice staging, PartMaker make_part)
    : C10dCommunicator(required(group), [&] {
        if (store == nullptr)
          throw InvalidConfig("the process group has no store: pass the store with which it was made");
        auto world = std::make_shared<C10dWorld>();
        world->store = store;
        world->watch = std::make_shared<FailureWatch>(store, group->getRank(), group->getSize());
        world->make_group = std::move(make_group);
        world->staging = staging;
        world->make_part = std::move(make_part);
        return world;
      }()) {
  first_ = true;
}

C10dCommunicator::C10dCommunicator(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                   std::shared_ptr<C10dWorld> world)
    : world_(std::move(world)), channel_(*group, *world_), exceptions_(std::uncaught_exceptions()) {}

/// Not of a duplicate: a host that cannot be made ends its duplicates first, and its maker tells why.
C10dCommunicator::~C10dCommunicator() {
  if (first_ && std::uncaught_exceptions() > exceptions_) fail("an exception ended it");
}

Handle C10dCommunicator::start(const Call& call) {
  if (world_->watch->failed()) world_->watch->throw_if_failed(describe(call));
  C10dOperation& operation =
      operations_.take([this] { return std::make_unique<C10dOperation>(channel_, operations_); });
  try {
    operation.start(call, next_sequence_++, timeout());
  } catch (...) {
    operations_.give_back(operation);
    throw;
  }
  return {&operation, timeout()};
}

std::unique_ptr<Communicator> C10dCommunicator::duplicate() {
  if (!world_->make_group)
    throw InvalidConfig("this communicator cannot be duplicated: it was made without a group maker");
  std::unique_ptr<C10dCommunicator> twin(new C10dCommunicator(required(world_->make_group()), world_));
  twin->set_timeout(timeout());
  return twin;
}

/// Counters of parts must not meet in the store.
std::unique_ptr<Communicator> C10dCommunicator::split(int color) {
  if (!world_->make_part) return Communicator::split(color);
  const std::vector<int> members = members_of_color(*this, color);
  const GroupsOfPart groups = world_->make_part(members);
  auto world = std::make_shared<C10dWorld>(*world_);
  const std::string name = "laconic/part/" + std::to_string(world_->parts++) + "/" + std::to_string(members.front());
  world->store = c10::make_intrusive<c10d::PrefixStore>(name, world_->store);
  world->make_group = groups.make_group;
  world->make_part = groups.make_part;
  world->counters = world->parts = 0;
  std::unique_ptr<C10dCommunicator> part(new C10dCommunicator(required(groups.make_group()), std::move(world)));
  part->set_timeout(timeout());
  return part;
}

std::unique_ptr<SharedCounter> C10dCommunicator::make_counter() {
  const std::string key = "laconic/counter/" + std::to_string(world_->counters++);
  return std::make_unique<StoreCounter>(own_connection(world_->store), world_->watch, key, size());
}

void C10dCommunicator::fail(std::string_view reason) noexcept { world_->watch->fail(reason); }

std::string C10dCommunicator::description() const {
  return "c10d " + channel_.backend->getBackendName() + ", " + std::to_string(size()) +
         (size() == 1 ? " rank" : " ranks");
}

}  // namespace laconic::plugin
