#pragma once

#include <vector>

#include "base/message_memory.h"
#include "laconic/communicator.h"
#include "laconic/place.h"
#include "transport/operation_pool.h"

namespace laconic::staged {

/// One call on device memory: its pinned copies and the engine's call on them. Bytes lie at the same offsets in both.
class StagedOperation final : public Operation {
 public:
  StagedOperation(Place& place, OperationPool<StagedOperation>& pool) : place_(place), pool_(pool) {}

  void begin(Communicator& engine, const Call& call);

  bool test() override;
  void wait(Milliseconds timeout) override;
  void release() noexcept override;

 private:
  std::byte* stage_sent(const Call& call, int rank, int size);
  std::byte* stage_received(const Call& call, int rank, int size);
  void copy_in();

  Place& place_;
  OperationPool<StagedOperation>& pool_;
  MessageMemory sent_;
  MessageMemory received_;
  std::byte* staged_ = nullptr;         ///< where received_ begins
  std::byte* destination_ = nullptr;    ///< on the device
  std::vector<ByteRange> arriving_;     ///< what goes from one to the other
  Handle pending_;
};

}  // namespace laconic::staged
