#pragma once

#include "torch/plugin/c10d/operation.h"

namespace laconic::plugin {

/// The ranks of a group of torch.distributed, with any engine (Gloo, NCCL, MPI, UCC).
///
/// Nobody else may use the group: engines match collectives by their order, and a second thread that starts collectives
/// on the same group changes the order. All calls of a communicator come from one thread at a time. Nothing here runs
/// in a callback of the engine or waits for one: handles are polled.
///
/// An engine that cannot use CPU tensors (NCCL) takes views on its device. Bytes in CPU memory are copied to tensors
/// there, through pinned memory, on a stream of our own. The device is the one that is current when the communicator is
/// made. Other engines take views in CPU memory alone. NCCL does not guarantee that several groups make progress at the
/// same time, so duplicates do not overlap there.
///
/// Sums of all_reduce are in the engine's order, those of reduce_scatter in rank order. fail() and counters use the
/// store. A rank that ends without calling fail() shows as an error of the engine or a timeout. A handle that is
/// destroyed before its end releases the views at once (operation.h).
class C10dCommunicator final : public Communicator {
 public:
  /// `store` belongs to this group alone; it may be a prefix of another store. Every rank must make one; nothing else
  /// about the call is collective. With `staging`, bytes are copied to that device even if the engine can use CPU
  /// tensors, or to other CPU tensors if that device is the CPU; this is for tests. Throws InvalidConfig for a group
  /// without an engine.
  C10dCommunicator(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const c10::intrusive_ptr<c10d::Store>& store,
                   GroupMaker make_group, StagingDevice staging = {}, SubgroupMaker make_subgroup = {});
  ~C10dCommunicator() override;

  int rank() const override { return channel_.rank; }
  int size() const override { return channel_.size; }
  bool takes(Device device) const override { return channel_.takes(device); }
  bool duplicates_overlap() const override { return !channel_.device.is_cuda(); }
  Handle start(const Call& call) override;
  /// Calls the group maker, in the caller's thread.
  std::unique_ptr<Communicator> duplicate() override;
  /// Calls the subgroup maker and the group maker that it returns, in the caller's thread.
  std::unique_ptr<Communicator> split(int color) override;
  std::unique_ptr<SharedCounter> make_counter() override;
  void fail(std::string_view reason) noexcept override;
  std::string description() const override;

 private:
  C10dCommunicator(const c10::intrusive_ptr<c10d::ProcessGroup>& group, std::shared_ptr<C10dWorld> world);

  std::shared_ptr<C10dWorld> world_;
  C10dChannel channel_;
  OperationPool<C10dOperation> operations_;
  std::uint64_t next_sequence_ = 0;
  bool first_ = false;  ///< whether it is not a duplicate
  int exceptions_;      ///< in flight at construction; if there are more at destruction, an exception caused it
};

}  // namespace laconic::plugin
