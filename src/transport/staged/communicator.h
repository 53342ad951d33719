#pragma once

#include <memory>

#include "laconic/place.h"
#include "transport/operation_pool.h"
#include "transport/staged/operation.h"

namespace laconic::staged {

/// Takes views on a device over an engine that moves CPU memory: bytes that are sent are copied to pinned memory first,
/// bytes that arrive are copied to the device. Start waits until the place has computed what is sent. When a handle is
/// done, the bytes that arrived are there for all work that the place is given from then on. Calls on CPU memory go
/// straight to the engine; a group of one needs none.
class StagedCommunicator final : public Communicator {
 public:
  /// Both must outlive it.
  StagedCommunicator(Communicator& engine, Place& place) : engine_(&engine), place_(place) {}
  StagedCommunicator(std::unique_ptr<Communicator> engine, Place& place)
      : owned_(std::move(engine)), engine_(owned_.get()), place_(place) {}

  int rank() const override { return engine_->rank(); }
  int size() const override { return engine_->size(); }
  bool takes(Device device) const override { return device == Device::cpu || device == place_.device(); }
  Handle start(const Call& call) override;
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<StagedCommunicator>(engine_->duplicate(), place_);
  }
  std::unique_ptr<SharedCounter> make_counter() override { return engine_->make_counter(); }
  void fail(std::string_view reason) noexcept override { engine_->fail(reason); }
  Milliseconds timeout() const override { return engine_->timeout(); }
  void set_timeout(Milliseconds timeout) override { engine_->set_timeout(timeout); }
  std::string description() const override { return engine_->description() + ", through pinned memory"; }

 private:
  void deliver_alone(const Call& call);

  std::unique_ptr<Communicator> owned_;  ///< null if the engine is the caller's
  Communicator* engine_;
  Place& place_;
  OperationPool<StagedOperation> operations_;
};

}  // namespace laconic::staged
