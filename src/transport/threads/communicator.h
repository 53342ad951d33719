#pragma once

#include <memory>

#include "transport/threads/channel.h"

namespace laconic::threads {

/// One rank of a world, in a thread of its own.
class ThreadCommunicator final : public Communicator {
 public:
  explicit ThreadCommunicator(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}

  int rank() const override { return channel_->rank(); }
  int size() const override { return channel_->size(); }
  bool takes(Device device) const override { return channel_->takes(device); }
  bool reduces(Device device) const override { return device == Device::cpu; }
  Handle start(const Call& call) override { return {&channel_->start(call), timeout()}; }
  std::unique_ptr<Communicator> duplicate() override;
  std::unique_ptr<Communicator> split(int color) override;
  std::unique_ptr<SharedCounter> make_counter() override;
  void fail(std::string_view reason) noexcept override { channel_->fail(reason); }
  std::string description() const override;

 private:
  std::unique_ptr<Channel> channel_;
};

}  // namespace laconic::threads
