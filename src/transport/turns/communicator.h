#pragma once

#include <memory>

#include "transport/threads/communicator.h"
#include "transport/turns/operation.h"

namespace laconic::turns {

/// One rank of the threads' world, on its own stack, which takes turns with the stacks of the other ranks.
class TurnCommunicator final : public threads::WorldCommunicator {
 public:
  TurnCommunicator(Turns& turns, std::unique_ptr<threads::Channel> channel)
      : WorldCommunicator(std::move(channel), "in turn"), turns_(turns) {}

  Handle start(const Call& call) override;

 private:
  std::unique_ptr<Communicator> over(std::unique_ptr<threads::Channel> channel) override {
    return std::make_unique<TurnCommunicator>(turns_, std::move(channel));
  }

  Turns& turns_;
  OperationPool<TurnOperation> operations_;
};

}  // namespace laconic::turns
