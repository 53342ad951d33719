// How a call becomes one of c10d's: its messages side by side in tensors, and back into the caller's views.

#include <cstring>

#include "base/message_memory.h"
#include "torch/plugin/c10d/operation.h"
#include "transport/copy_bytes.h"

namespace laconic::plugin {
namespace {

/// The engine gives up later than anybody who waits here.
constexpr Milliseconds kEngineGrace{5000};
constexpr Milliseconds kLongestEngineTimeout = std::chrono::hours(24 * 30);

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

/// Ranges of varying sizes travel as whole cache lines, as they lie in Slots: so a buffer of them can travel as it is.
constexpr std::uint64_t kLine = 64;
std::uint64_t lines(std::uint64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

std::vector<std::int64_t> sizes_of(const std::vector<ByteRange>& ranges) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(ranges.size());
  for (const ByteRange& range : ranges) sizes.push_back(static_cast<std::int64_t>(lines(range.bytes)));
  return sizes;
}

std::uint64_t total(const std::vector<ByteRange>& ranges) {
  std::uint64_t bytes = 0;
  for (const ByteRange& range : ranges) bytes += lines(range.bytes);
  return bytes;
}

/// A tensor over the caller's memory, at least one byte. c10d has no const tensors.
at::Tensor tensor_over(const std::byte* memory, std::uint64_t bytes, at::Device device,
                       std::shared_ptr<std::byte> owner = {}) {
  return at::from_blob(
      const_cast<std::byte*>(memory), {static_cast<std::int64_t>(bytes)}, [owner = std::move(owner)](void*) {},
      at::TensorOptions().dtype(at::kByte).device(device));
}

template <class Options>
Options with_timeout(Milliseconds timeout) {
  Options options;
  options.timeout = std::min(timeout, kLongestEngineTimeout) + kEngineGrace;
  return options;
}

}  // namespace

/// The ranges of `buffer` as one tensor that shares their memory. Undefined if they do not lie as they travel, or if
/// the memory has no owner who could be shared: after a withdrawal the engine would use what is somebody else's then.
at::Tensor C10dOperation::shared_ranges(const std::byte* buffer, const std::vector<ByteRange>& ranges) const {
  const std::byte* begin = nullptr;
  std::uint64_t bytes = 0;
  for (const ByteRange& range : ranges) {
    if (range.bytes == 0) continue;
    if (begin == nullptr) begin = buffer + range.offset;
    if (buffer + range.offset != begin + bytes) return {};
    bytes += lines(range.bytes);
  }
  if (begin == nullptr) return {};
  auto owner = message_owner(begin, bytes);
  if (owner == nullptr) return {};
  return tensor_over(begin, bytes, on_device() ? channel_.device : at::kCPU, std::move(owner));
}

/// On the device, on the channel's stream.
void C10dOperation::move(std::byte* to, const std::byte* from, std::uint64_t bytes) const {
  if (!on_device()) return copy_bytes(to, from, bytes);
  if (bytes == 0 || to == from) return;
  tensor_over(to, bytes, channel_.device).copy_(tensor_over(from, bytes, channel_.device), /*non_blocking=*/true);
}

/// CPU memory that copies to and from a device need not touch twice: pinned, where there is a device.
std::byte* C10dOperation::grown(at::Tensor& tensor, std::uint64_t bytes) const {
  if (!tensor.defined() || static_cast<std::uint64_t>(tensor.numel()) < bytes) {
    const auto options = at::TensorOptions().dtype(at::kByte);
    tensor = at::empty({static_cast<std::int64_t>(bytes)}, on_device()
                                                               ? options.device(channel_.device)
                                                               : options.pinned_memory(!channel_.device.is_cpu()));
  }
  return bytes_of(tensor);
}

/// The first bytes of the operation's own tensor, or of a twin of it on the engine's device.
at::Tensor C10dOperation::placed(const at::Tensor& own, at::Tensor& twin, std::uint64_t bytes) const {
  const auto count = static_cast<std::int64_t>(bytes);
  if (!staged()) return own.narrow(0, 0, count);
  if (!twin.defined() || twin.numel() < count) {
    twin = at::empty({own.numel()}, at::TensorOptions().dtype(at::kByte).device(channel_.device));
  }
  return twin.narrow(0, 0, count);
}

std::byte* C10dOperation::sent(std::uint64_t bytes) {
  sent_bytes_ = bytes;
  return grown(own_sent(), bytes);
}

std::byte* C10dOperation::received(std::uint64_t bytes) {
  received_bytes_ = bytes;
  return grown(own_received(), bytes);
}

at::Tensor C10dOperation::engine_sent() {
  if (shared_sent_.defined()) return shared_sent_;
  at::Tensor tensor = placed(own_sent(), device_sent_, sent_bytes_);
  if (staged()) tensor.copy_(sent_.narrow(0, 0, tensor.numel()));
  return tensor;
}

at::Tensor C10dOperation::engine_received() {
  if (shared_received_.defined()) return shared_received_;
  at::Tensor tensor = placed(own_received(), device_received_, received_bytes_);
  const bool in_place =
      call_.kind == CallKind::all_reduce || call_.kind == CallKind::broadcast || call_.kind == CallKind::barrier;
  if (in_place && staged()) tensor.copy_(received_.narrow(0, 0, tensor.numel()));
  return tensor;
}

void C10dOperation::pack() {
  const auto ranks = static_cast<std::uint64_t>(channel_.size);
  switch (call_.kind) {
    case CallKind::all_reduce: return move(received(call_.bytes), call_.receive, call_.bytes);
    case CallKind::broadcast: {
      std::byte* target = received(call_.bytes);
      if (channel_.rank == call_.root) move(target, call_.receive, call_.bytes);
      return;
    }
    case CallKind::barrier: std::memset(received(sizeof(float)), 0, sizeof(float)); return;
    case CallKind::all_gather:
      received(ranks * call_.bytes);
      return move(sent(call_.bytes), call_.send, call_.bytes);
    case CallKind::reduce_scatter:
    case CallKind::all_to_all:
      received(ranks * call_.bytes);
      return move(sent(ranks * call_.bytes), call_.send, ranks * call_.bytes);
    case CallKind::all_gather_varying: {
      // As an all_to_all in which everybody gets the same: engines refuse an uneven all_gather.
      const auto self = static_cast<std::size_t>(channel_.rank);
      send_ranges_.assign(ranks, ByteRange{0, receive_ranges_[self].bytes});
      if (ranks == 2) {
        // One part goes out and one comes in, and both may be where they belong.
        own_range_ = receive_ranges_[self];
        send_ranges_[self] = receive_ranges_[self] = {};
      }
      return pack_ranges();
    }
    case CallKind::all_to_all_varying: return pack_ranges();
  }
}

void C10dOperation::pack_ranges() {
  if (!staged()) {
    shared_received_ = shared_ranges(call_.receive, receive_ranges_);
    shared_sent_ = shared_ranges(call_.send, send_ranges_);
  }
  received_bytes_ = total(receive_ranges_);
  sent_bytes_ = total(send_ranges_);
  if (!shared_received_.defined()) grown(own_received(), received_bytes_);
  if (shared_sent_.defined()) return;
  std::byte* target = grown(own_sent(), sent_bytes_);
  for (const ByteRange& range : send_ranges_) {
    move(target, call_.send + range.offset, range.bytes);
    target += lines(range.bytes);
  }
}

void C10dOperation::post(Milliseconds timeout) {
  const bool pairs = call_.kind == CallKind::all_to_all_varying || call_.kind == CallKind::all_gather_varying;
  if (!pairs && received_bytes_ == 0) return;  // all ranks know that there is nothing to move
  at::Tensor target = engine_received();
  c10d::Backend& engine = *channel_.backend;
  switch (call_.kind) {
    case CallKind::all_reduce:
    // The engine's own barrier waits for the calls before it, in one of the engine's few threads; a sum does not.
    case CallKind::barrier: {
      auto options = with_timeout<c10d::AllreduceOptions>(timeout);
      options.reduceOp = call_.reduction == Reduction::sum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
      std::vector<at::Tensor> tensors{target.view(at::kFloat)};
      work_ = engine.allreduce(tensors, options);
      return;
    }
    case CallKind::broadcast: {
      auto options = with_timeout<c10d::BroadcastOptions>(timeout);
      options.rootRank = call_.root;
      std::vector<at::Tensor> tensors{target};
      work_ = engine.broadcast(tensors, options);
      return;
    }
    case CallKind::all_gather: {
      at::Tensor source = engine_sent();
      work_ = engine._allgather_base(target, source, with_timeout<c10d::AllgatherOptions>(timeout));
      return;
    }
    case CallKind::reduce_scatter:
    case CallKind::all_to_all:
    case CallKind::all_gather_varying:
    case CallKind::all_to_all_varying: {
      at::Tensor source = engine_sent();
      std::vector<std::int64_t> incoming = sizes_of(receive_ranges_);
      std::vector<std::int64_t> outgoing = sizes_of(send_ranges_);
      work_ = engine.alltoall_base(target, source, incoming, outgoing, with_timeout<c10d::AllToAllOptions>(timeout));
      return;
    }
  }
}

/// What a group of one does: nobody else has anything to add.
void C10dOperation::deliver_alone() {
  switch (call_.kind) {
    case CallKind::all_reduce:
    case CallKind::broadcast:
    case CallKind::barrier: return;
    case CallKind::reduce_scatter:
    case CallKind::all_gather:
    case CallKind::all_to_all: return move(call_.receive, call_.send, call_.bytes);
    case CallKind::all_gather_varying: send_ranges_.assign(1, ByteRange{0, receive_ranges_[0].bytes}); [[fallthrough]];
    case CallKind::all_to_all_varying:
      return move(call_.receive + receive_ranges_[0].offset, call_.send + send_ranges_[0].offset,
                  receive_ranges_[0].bytes);
  }
}

/// The engine has done its part, or there was none to do.
void C10dOperation::deliver() {
  if (staged() && work_ != nullptr && received_bytes_ != 0) {
    const auto count = static_cast<std::int64_t>(received_bytes_);
    received_.narrow(0, 0, count).copy_(device_received_.narrow(0, 0, count));
  }
  switch (call_.kind) {
    case CallKind::barrier: return;
    case CallKind::reduce_scatter: return add_in_rank_order();
    case CallKind::all_gather_varying:
      move(call_.receive + own_range_.offset, call_.send, own_range_.bytes);
      [[fallthrough]];
    case CallKind::all_to_all_varying: return unpack(receive_ranges_);
    case CallKind::broadcast:
      if (channel_.rank == call_.root) return;
      [[fallthrough]];
    case CallKind::all_reduce:
    case CallKind::all_gather:
    case CallKind::all_to_all: return move(call_.receive, bytes_of(own_received()), received_bytes_);
  }
}

void C10dOperation::unpack(std::span<const ByteRange> ranges) {
  if (shared_received_.defined()) return;  // they came to where they belong
  const std::byte* source = bytes_of(own_received());
  for (const ByteRange& range : ranges) {
    move(call_.receive + range.offset, source, range.bytes);
    source += lines(range.bytes);
  }
}

/// The parts came as an all_to_all: not every engine, in every version, has a reduce_scatter.
void C10dOperation::add_in_rank_order() {
  if (on_device()) return add_on_device();
  const std::size_t count = call_.bytes / sizeof(float);
  const auto* parts = reinterpret_cast<const float*>(bytes_of(received_));
  auto* sum = reinterpret_cast<float*>(call_.receive);
  copy_bytes(call_.receive, bytes_of(received_), call_.bytes);
  for (int r = 1; r < channel_.size; ++r) {
    const float* part = parts + static_cast<std::size_t>(r) * count;
    for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
  }
}

void C10dOperation::add_on_device() {
  if (call_.bytes == 0) return;
  const auto bytes = static_cast<std::int64_t>(call_.bytes);
  const auto part = [&](int rank) { return device_received_.narrow(0, rank * bytes, bytes).view(at::kFloat); };
  at::Tensor sum = tensor_over(call_.receive, call_.bytes, channel_.device).view(at::kFloat);
  sum.copy_(part(0));
  for (int r = 1; r < channel_.size; ++r) sum.add_(part(r));
}

}  // namespace laconic::plugin
