#include "torch/plugin/c10d/communicator.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>

#include "laconic/error.h"

namespace laconic::plugin {
namespace {

/// The group's engine for such tensors; null: it has none.
c10::intrusive_ptr<c10d::Backend> engine_for(c10d::ProcessGroup& group, at::DeviceType type) {
  try {
    return group.getBackend(type);
  } catch (const c10::Error&) {
    return {};  // not every version of torch can be asked first
  }
}

C10dGroup engine_of(c10d::ProcessGroup& group, const StagingDevice& wanted) {
  C10dGroup found;
  found.rank = group.getRank();
  found.size = group.getSize();
  for (const auto type : {at::kCPU, at::kCUDA}) {
    if (wanted && wanted->type() != type) continue;
    found.backend = engine_for(group, type);
    if (found.backend == nullptr) continue;
    found.staged = wanted || type != at::kCPU;
    if (type == at::kCPU) return found;
    const c10::impl::VirtualGuardImpl device(type);
    found.device = wanted && wanted->has_index() ? *wanted : device.getDevice();
    found.stream = device.getStreamFromGlobalPool(found.device);
    return found;
  }
  if (wanted)
    throw InvalidConfig("the process group has no engine for tensors on " + wanted->str() +
                        ": make it with one that has, nccl for CUDA");
  throw InvalidConfig(
      "the process group has an engine neither for the CPU nor for CUDA: make it with backend gloo, "
      "nccl, mpi or ucc");
}

c10::intrusive_ptr<c10d::ProcessGroup> required(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  if (group == nullptr)
    throw InvalidConfig("there is no process group: call torch.distributed.init_process_group first");
  return group;
}

}  // namespace

struct C10dCommunicator::Family {
  c10::intrusive_ptr<c10d::Store> store;
  std::shared_ptr<FailureWatch> watch;
  GroupMaker make_group;
  StagingDevice staging;
  std::int64_t counters = 0;
};

namespace {

class StoreCounter final : public SharedCounter {
 public:
  StoreCounter(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<FailureWatch> watch, std::string key)
      : store_(std::move(store)), watch_(std::move(watch)), key_(std::move(key)) {}

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
};

}  // namespace

C10dCommunicator::C10dCommunicator(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                   const c10::intrusive_ptr<c10d::Store>& store, GroupMaker make_group,
                                   StagingDevice staging)
    : C10dCommunicator(required(group), [&] {
        if (store == nullptr)
          throw InvalidConfig("the process group has no store: hand over the one that it was made with");
        auto family = std::make_shared<Family>();
        family->store = store;
        family->watch = std::make_shared<FailureWatch>(store, group->getRank());
        family->make_group = std::move(make_group);
        family->staging = staging;
        return family;
      }()) {}

C10dCommunicator::C10dCommunicator(const c10::intrusive_ptr<c10d::ProcessGroup>& group, std::shared_ptr<Family> family)
    : family_(std::move(family)),
      group_(engine_of(*group, family_->staging)),
      operations_(group_),
      exceptions_(std::uncaught_exceptions()) {
  group_.watch = family_->watch;
}

C10dCommunicator::~C10dCommunicator() {
  if (std::uncaught_exceptions() > exceptions_) fail("an exception ended it");
}

Handle C10dCommunicator::start(const Call& call) {
  if (family_->watch->failed()) family_->watch->throw_if_failed(describe(call));
  return {&operations_.take(call, timeout()), timeout()};
}

std::unique_ptr<Communicator> C10dCommunicator::duplicate() {
  if (!family_->make_group)
    throw InvalidConfig("this communicator cannot be duplicated: it was made without a maker of groups");
  std::unique_ptr<C10dCommunicator> twin(new C10dCommunicator(required(family_->make_group()), family_));
  twin->set_timeout(timeout());
  return twin;
}

std::unique_ptr<SharedCounter> C10dCommunicator::make_counter() {
  const std::string key = "laconic/counter/" + std::to_string(family_->counters++);
  return std::make_unique<StoreCounter>(own_connection(family_->store), family_->watch, key);
}

void C10dCommunicator::fail(std::string_view reason) noexcept { family_->watch->fail(reason); }

std::string C10dCommunicator::description() const {
  return "c10d " + group_.backend->getBackendName() + ", " + std::to_string(size()) +
         (size() == 1 ? " rank" : " ranks");
}

}  // namespace laconic::plugin
