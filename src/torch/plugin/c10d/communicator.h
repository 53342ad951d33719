#pragma once

#include "torch/plugin/c10d/operation.h"

namespace laconic::plugin {

/// The ranks of a group of torch.distributed, whatever engine moves its bytes (Gloo, NCCL, MPI, UCC).
///
/// The group must be ours alone: engines match collectives by their order, and a second thread that calls some on the
/// user's group changes the order. All calls of a communicator come from one thread at a time. Nothing here runs in, or
/// waits for, a callback of the engine: handles are polled.
///
/// Views lie on the host. An engine without tensors on the CPU (NCCL) gets device tensors, to which bytes are copied by
/// way of pinned memory, on a stream of our own; the device is the one that is current when the communicator is made.
/// NCCL does not promise that several groups make progress beside each other; make the group of Gloo where that
/// matters.
///
/// Sums of all_reduce are in the engine's order, those of reduce_scatter in rank order. fail() goes through the store,
/// as counters do; a rank that ends without a word is an error of the engine or a timeout. A handle that is dropped
/// before its end gives the views back at once (operation.h).
class C10dCommunicator final : public Communicator {
 public:
  /// `store` belongs to this group alone, as a prefix of some other. Collective only in that every rank makes one.
  /// With `staging`, bytes are copied to that device although the engine might read the host's, or to other tensors
  /// of the host's if that is the device: for tests. InvalidConfig for a group without an engine.
  C10dCommunicator(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const c10::intrusive_ptr<c10d::Store>& store,
                   GroupMaker make_group, StagingDevice staging = {});
  ~C10dCommunicator() override;

  int rank() const override { return channel_.rank; }
  int size() const override { return channel_.size; }
  Handle start(const Call& call) override;
  /// Calls the maker of groups, in the caller's thread.
  std::unique_ptr<Communicator> duplicate() override;
  std::unique_ptr<SharedCounter> make_counter() override;
  void fail(std::string_view reason) noexcept override;
  std::string description() const override;

 private:
  C10dCommunicator(const c10::intrusive_ptr<c10d::ProcessGroup>& group, std::shared_ptr<C10dWorld> world);

  std::shared_ptr<C10dWorld> world_;
  C10dChannel channel_;
  OperationPool<C10dOperation> operations_;
  std::uint64_t next_sequence_ = 0;
  bool first_ = false;  ///< no duplicate
  int exceptions_;      ///< in flight when it was made: more at its end mean that one ends it
};

}  // namespace laconic::plugin
