#pragma once

#include <memory>

#include "transport/threads/channel.h"
#include "transport/turns/operation.h"

namespace laconic::turns {

/// One rank of the threads' world, on its own stack, which takes turns with the stacks of the other ranks.
class TurnCommunicator final : public Communicator {
 public:
  TurnCommunicator(Turns& turns, std::unique_ptr<threads::Channel> channel)
      : turns_(turns), channel_(std::move(channel)) {}

  int rank() const override { return channel_->rank(); }
  int size() const override { return channel_->size(); }
  Handle start(const Call& call) override;
  std::unique_ptr<Communicator> duplicate() override;
  std::unique_ptr<Communicator> split(int color) override;
  std::unique_ptr<SharedCounter> make_counter() override;
  void fail(std::string_view reason) noexcept override { channel_->fail(reason); }
  std::string description() const override;

 private:
  Turns& turns_;
  std::unique_ptr<threads::Channel> channel_;
  OperationPool<TurnOperation> operations_;
};

}  // namespace laconic::turns
