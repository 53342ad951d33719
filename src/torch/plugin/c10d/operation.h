#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "torch/plugin/c10d/channel.h"
#include "transport/deadline.h"
#include "transport/operation_pool.h"

namespace laconic::plugin {

/// One collective of this rank. c10d cannot cancel a collective, so a collective that is withdrawn leaves its tensors
/// to the engine until the engine is done. Therefore the engine works on the caller's views only if they are contiguous
/// ranges of message memory (base/message_memory.h), which the tensor then owns too. Otherwise it works on the
/// operation's own tensors; that costs one copy of the message each way, but the caller's memory is free at once. Views
/// on a device are complete when a call starts, and again when it is done: copies of them run on the channel's stream,
/// which is waited for at the end.
class C10dOperation final : public Operation {
 public:
  C10dOperation(const C10dChannel& channel, OperationPool<C10dOperation>& pool) : channel_(channel), pool_(pool) {}

  bool test() override;
  void wait(Milliseconds timeout) override;
  void release() noexcept override;

  /// Passes the call to the engine. If the engine rejects it, throws TransportError and fails all ranks.
  void start(const Call& call, std::uint64_t sequence, Milliseconds timeout);

 private:
  void pack();
  void pack_ranges();
  void post(Milliseconds timeout);
  bool finish();
  void deliver();
  void deliver_alone();
  void drop_shared();
  void unpack(std::span<const ByteRange> ranges);
  void add_in_rank_order();
  void add_on_device();
  void move(std::byte* to, const std::byte* from, std::uint64_t bytes) const;
  [[noreturn]] void throw_engine_error(const std::exception_ptr& error);
  [[noreturn]] void throw_timeout(Milliseconds timeout);
  void look_for_failure();
  void pause(Milliseconds longest);
  void abandon();
  std::string name() const;

  /// A group of one rank needs no engine.
  bool bypasses_engine() const { return channel_.size == 1 && !channel_.staged; }
  bool on_device() const { return call_.device != Device::cpu; }
  /// Whether bytes of this call are copied to the engine's device and back.
  bool staged() const { return channel_.staged && !on_device(); }
  /// The operation's own tensors, where the caller's views lie.
  at::Tensor& own_sent() { return on_device() ? device_sent_ : sent_; }
  at::Tensor& own_received() { return on_device() ? device_received_ : received_; }
  std::byte* grown(at::Tensor& tensor, std::uint64_t bytes) const;
  at::Tensor placed(const at::Tensor& own, at::Tensor& twin, std::uint64_t bytes) const;
  at::Tensor shared_ranges(const std::byte* buffer, const std::vector<ByteRange>& ranges) const;
  std::byte* sent(std::uint64_t bytes);
  std::byte* received(std::uint64_t bytes);
  at::Tensor engine_sent();
  at::Tensor engine_received();

  const C10dChannel& channel_;
  OperationPool<C10dOperation>& pool_;
  Call call_;
  std::vector<ByteRange> send_ranges_;
  std::vector<ByteRange> receive_ranges_;
  ByteRange own_range_;  ///< this rank's range of an all_gather, if the engine does not copy it
  std::uint64_t sequence_ = 0;
  Milliseconds patience_{0};  ///< how long the destructor of a handle waits for its end
  Clock::time_point started_;
  c10::intrusive_ptr<c10d::Work> work_;
  std::string timeout_;  ///< the message of a wait that timed out
  bool broken_ = false;  ///< the engine has given up on it

  at::Tensor sent_, received_;                ///< bytes in CPU memory; they never shrink
  at::Tensor shared_sent_, shared_received_;  ///< the caller's memory, used in place of the two above
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t received_bytes_ = 0;
  at::Tensor device_sent_, device_received_;  ///< bytes on the engine's device: of its views, or copies of the above
};

}  // namespace laconic::plugin
