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
                                   StagingDevice staging, SubgroupMaker make_subgroup)
    : C10dCommunicator(required(group), [&] {
        if (store == nullptr)
          throw InvalidConfig("the process group has no store: pass the store with which it was made");
        auto world = std::make_shared<C10dWorld>();
        world->store = store;
        world->watch = std::make_shared<FailureWatch>(store, group->getRank(), group->getSize());
        world->make_group = std::move(make_group);
        world->staging = staging;
        world->make_subgroup = std::move(make_subgroup);
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

/// Counters of subgroups must not meet in the store.
std::unique_ptr<Communicator> C10dCommunicator::split(int color) {
  if (!world_->make_subgroup) return Communicator::split(color);
  const std::vector<int> members = members_of_color(*this, color);
  const Subgroup subgroup = world_->make_subgroup(members);
  auto world = std::make_shared<C10dWorld>(*world_);
  const std::string name =
      "laconic/subgroup/" + std::to_string(world_->subgroups++) + "/" + std::to_string(members.front());
  world->store = c10::make_intrusive<c10d::PrefixStore>(name, world_->store);
  world->make_group = subgroup.make_group;
  world->make_subgroup = subgroup.make_subgroup;
  world->counters = world->subgroups = 0;
  std::unique_ptr<C10dCommunicator> made(new C10dCommunicator(required(subgroup.make_group()), std::move(world)));
  made->set_timeout(timeout());
  return made;
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
