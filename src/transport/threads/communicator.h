#pragma once

#include <memory>

#include "transport/threads/channel.h"

namespace laconic::threads {

/// One rank of a world, over a channel of its own. How the rank waits is the subclass's matter.
class WorldCommunicator : public Communicator {
 public:
  int rank() const final { return channel_->rank(); }
  int size() const final { return channel_->size(); }
  std::unique_ptr<Communicator> duplicate() final;
  std::unique_ptr<Communicator> split(int color) final;
  std::unique_ptr<SharedCounter> make_counter() final;
  void fail(std::string_view reason) noexcept final { channel_->fail(reason); }
  std::string description() const final;

 protected:
  /// `kind` is how the description begins.
  WorldCommunicator(std::unique_ptr<Channel> channel, const char* kind) : channel_(std::move(channel)), kind_(kind) {}

  Channel& channel() const { return *channel_; }

 private:
  /// The same kind of communicator over another channel.
  virtual std::unique_ptr<Communicator> over(std::unique_ptr<Channel> channel) = 0;

  std::unique_ptr<Channel> channel_;
  const char* kind_;
};

/// One rank of a world, in a thread of its own.
class ThreadCommunicator final : public WorldCommunicator {
 public:
  explicit ThreadCommunicator(std::unique_ptr<Channel> channel) : WorldCommunicator(std::move(channel), "threads") {}

  bool takes(Device device) const override { return channel().takes(device); }
  bool reduces(Device device) const override { return device == Device::cpu; }
  Handle start(const Call& call) override { return {&channel().start(call), timeout()}; }

 private:
  std::unique_ptr<Communicator> over(std::unique_ptr<Channel> channel) override {
    return std::make_unique<ThreadCommunicator>(std::move(channel));
  }
};

}  // namespace laconic::threads
