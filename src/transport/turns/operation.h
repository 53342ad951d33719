#pragma once

#include "transport/operation_pool.h"
#include "transport/threads/operation.h"
#include "transport/turns/turns.h"

namespace laconic::turns {

/// A rank's operation in the threads' world. Its wait lets the other ranks run. A test that returns false does so too;
/// otherwise a rank that polls for the end would poll forever.
class TurnOperation final : public Operation {
 public:
  TurnOperation(Turns& turns, OperationPool<TurnOperation>& pool) : turns_(turns), pool_(pool) {}

  void begin(threads::ThreadOperation& operation) { operation_ = &operation; }

  bool test() override;
  void wait(Milliseconds timeout) override;
  void release() noexcept override;

 private:
  Turns& turns_;
  OperationPool<TurnOperation>& pool_;
  threads::ThreadOperation* operation_ = nullptr;
};

}  // namespace laconic::turns
