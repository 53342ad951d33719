#pragma once

#include <memory>

#include "laconic/place.h"
#include "transport/operation_pool.h"
#include "transport/staged/operation.h"

namespace laconic::staged {

/// Takes views on a place's device in the order of the place's work: start waits until the place has computed what is
/// sent, and when a handle is done, the bytes that arrived are there for all work that the place is given from then on.
/// An engine that reaches the device gets the views themselves. For any other, or if only its reductions do not, bytes
/// that are sent are copied to pinned memory first, and bytes that arrive are copied to the device. Calls on CPU memory
/// go straight to the engine; a group of one needs none. A handle that is dropped before it is done leaves the device's
/// memory as it was.
class StagedCommunicator final : public Communicator {
 public:
  /// Both must outlive it.
  StagedCommunicator(Communicator& engine, Place& place) : engine_(&engine), place_(place) {}
  StagedCommunicator(std::unique_ptr<Communicator> engine, Place& place)
      : owned_(std::move(engine)), engine_(owned_.get()), place_(place) {}

  int rank() const override { return engine_->rank(); }
  int size() const override { return engine_->size(); }
  bool takes(Device device) const override { return device == Device::cpu || device == place_.device(); }
  bool duplicates_overlap() const override { return engine_->duplicates_overlap(); }
  Handle start(const Call& call) override;
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<StagedCommunicator>(engine_->duplicate(), place_);
  }
  std::unique_ptr<Communicator> split(int color) override {
    return std::make_unique<StagedCommunicator>(engine_->split(color), place_);
  }
  std::unique_ptr<SharedCounter> make_counter() override { return engine_->make_counter(); }
  void fail(std::string_view reason) noexcept override { engine_->fail(reason); }
  Milliseconds timeout() const override { return engine_->timeout(); }
  void set_timeout(Milliseconds timeout) override { engine_->set_timeout(timeout); }
  std::string description() const override;

 private:
  bool engine_reaches(CallKind kind) const;
  void deliver_alone(const Call& call);

  std::unique_ptr<Communicator> owned_;  ///< null if the engine is the caller's
  Communicator* engine_;
  Place& place_;
  OperationPool<StagedOperation> operations_;
};

}  // namespace laconic::staged
