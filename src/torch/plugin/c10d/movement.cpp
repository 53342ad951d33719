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

/// The ranges of `buffer` as one tensor that shares their memory. Undefined if they do not lie as they travel, or if
/// the memory has no owner who could be shared: after a withdrawal the engine would use what is somebody else's then.
at::Tensor shared_ranges(const std::byte* buffer, const std::vector<ByteRange>& ranges) {
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
  return at::from_blob(
      const_cast<std::byte*>(begin), {static_cast<std::int64_t>(bytes)}, [owner = std::move(owner)](void*) {},
      at::TensorOptions().dtype(at::kByte));
}

template <class Options>
Options with_timeout(Milliseconds timeout) {
  Options options;
  options.timeout = std::min(timeout, kLongestEngineTimeout) + kEngineGrace;
  return options;
}

}  // namespace

/// Host memory that copies to and from a device need not touch twice: pinned, where there is a device.
std::byte* C10dOperation::grown(at::Tensor& tensor, std::uint64_t bytes) const {
  if (!tensor.defined() || static_cast<std::uint64_t>(tensor.numel()) < bytes) {
    const auto options = at::TensorOptions().dtype(at::kByte).pinned_memory(!channel_.device.is_cpu());
    tensor = at::empty({static_cast<std::int64_t>(bytes)}, options);
  }
  return bytes_of(tensor);
}

/// The first bytes of a host tensor, or of a twin of it on the device.
at::Tensor C10dOperation::placed(const at::Tensor& host, at::Tensor& twin, std::uint64_t bytes) const {
  const auto count = static_cast<std::int64_t>(bytes);
  if (!channel_.staged) return host.narrow(0, 0, count);
  if (!twin.defined() || twin.numel() < count) {
    twin = at::empty({host.numel()}, at::TensorOptions().dtype(at::kByte).device(channel_.device));
  }
  return twin.narrow(0, 0, count);
}

std::byte* C10dOperation::sent(std::uint64_t bytes) {
  sent_bytes_ = bytes;
  return grown(sent_, bytes);
}

std::byte* C10dOperation::received(std::uint64_t bytes) {
  received_bytes_ = bytes;
  return grown(received_, bytes);
}

at::Tensor C10dOperation::engine_sent() {
  if (shared_sent_.defined()) return shared_sent_;
  at::Tensor tensor = placed(sent_, device_sent_, sent_bytes_);
  if (channel_.staged) tensor.copy_(sent_.narrow(0, 0, tensor.numel()));
  return tensor;
}

at::Tensor C10dOperation::engine_received() {
  if (shared_received_.defined()) return shared_received_;
  at::Tensor tensor = placed(received_, device_received_, received_bytes_);
  const bool in_place =
      call_.kind == CallKind::all_reduce || call_.kind == CallKind::broadcast || call_.kind == CallKind::barrier;
  if (in_place && channel_.staged) tensor.copy_(received_.narrow(0, 0, tensor.numel()));
  return tensor;
}

void C10dOperation::pack() {
  const auto ranks = static_cast<std::uint64_t>(channel_.size);
  switch (call_.kind) {
    case CallKind::all_reduce: return copy_bytes(received(call_.bytes), call_.receive, call_.bytes);
    case CallKind::broadcast:
      received(call_.bytes);
      if (channel_.rank == call_.root)
        copy_bytes(received_.defined() ? bytes_of(received_) : nullptr, call_.receive, call_.bytes);
      return;
    case CallKind::barrier: std::memset(received(sizeof(float)), 0, sizeof(float)); return;
    case CallKind::all_gather:
      received(ranks * call_.bytes);
      return copy_bytes(sent(call_.bytes), call_.send, call_.bytes);
    case CallKind::reduce_scatter:
    case CallKind::all_to_all:
      received(ranks * call_.bytes);
      return copy_bytes(sent(ranks * call_.bytes), call_.send, ranks * call_.bytes);
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
  if (!channel_.staged) {
    shared_received_ = shared_ranges(call_.receive, receive_ranges_);
    shared_sent_ = shared_ranges(call_.send, send_ranges_);
  }
  received_bytes_ = total(receive_ranges_);
  sent_bytes_ = total(send_ranges_);
  if (!shared_received_.defined()) grown(received_, received_bytes_);
  if (shared_sent_.defined()) return;
  std::byte* target = grown(sent_, sent_bytes_);
  for (const ByteRange& range : send_ranges_) {
    copy_bytes(target, call_.send + range.offset, range.bytes);
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
    case CallKind::all_to_all: return copy_bytes(call_.receive, call_.send, call_.bytes);
    case CallKind::all_gather_varying: send_ranges_.assign(1, ByteRange{0, receive_ranges_[0].bytes}); [[fallthrough]];
    case CallKind::all_to_all_varying:
      return copy_bytes(call_.receive + receive_ranges_[0].offset, call_.send + send_ranges_[0].offset,
                        receive_ranges_[0].bytes);
  }
}

/// The engine has done its part, or there was none to do.
void C10dOperation::deliver() {
  if (channel_.staged && work_ != nullptr && received_bytes_ != 0) {
    const auto count = static_cast<std::int64_t>(received_bytes_);
    received_.narrow(0, 0, count).copy_(device_received_.narrow(0, 0, count));
  }
  switch (call_.kind) {
    case CallKind::barrier: return;
    case CallKind::reduce_scatter: return add_in_rank_order();
    case CallKind::all_gather_varying:
      copy_bytes(call_.receive + own_range_.offset, call_.send, own_range_.bytes);
      [[fallthrough]];
    case CallKind::all_to_all_varying: return unpack(receive_ranges_);
    case CallKind::broadcast:
      if (channel_.rank == call_.root) return;
      [[fallthrough]];
    case CallKind::all_reduce:
    case CallKind::all_gather:
    case CallKind::all_to_all: return copy_bytes(call_.receive, bytes_of(received_), received_bytes_);
  }
}

void C10dOperation::unpack(std::span<const ByteRange> ranges) {
  if (shared_received_.defined()) return;  // they came to where they belong
  const std::byte* source = bytes_of(received_);
  for (const ByteRange& range : ranges) {
    copy_bytes(call_.receive + range.offset, source, range.bytes);
    source += lines(range.bytes);
  }
}

/// The parts came as an all_to_all: not every engine, in every version, has a reduce_scatter.
void C10dOperation::add_in_rank_order() {
  const std::size_t count = call_.bytes / sizeof(float);
  const auto* parts = reinterpret_cast<const float*>(bytes_of(received_));
  auto* sum = reinterpret_cast<float*>(call_.receive);
  copy_bytes(call_.receive, bytes_of(received_), call_.bytes);
  for (int r = 1; r < channel_.size; ++r) {
    const float* part = parts + static_cast<std::size_t>(r) * count;
    for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
  }
}

}  // namespace laconic::plugin
