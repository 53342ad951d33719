// How a call becomes one of c10d's: its messages side by side in tensors, and back into the caller's views.

#include <cstring>

#include "torch/plugin/c10d_operation.h"

namespace laconic::plugin {
namespace {

/// The engine gives up later than anybody who waits here.
constexpr Milliseconds kEngineGrace{5000};
constexpr Milliseconds kLongestEngineTimeout = std::chrono::hours(24 * 30);

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

void copy_bytes(std::byte* target, const std::byte* source, std::uint64_t bytes) {
  if (bytes != 0) std::memcpy(target, source, bytes);
}

std::vector<std::int64_t> sizes_of(const std::vector<Part>& parts) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(parts.size());
  for (const Part& part : parts) sizes.push_back(static_cast<std::int64_t>(part.bytes));
  return sizes;
}

std::uint64_t total(const std::vector<Part>& parts) {
  std::uint64_t bytes = 0;
  for (const Part& part : parts) bytes += part.bytes;
  return bytes;
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
    const auto options = at::TensorOptions().dtype(at::kByte).pinned_memory(!group_.device.is_cpu());
    tensor = at::empty({static_cast<std::int64_t>(bytes)}, options);
  }
  return bytes_of(tensor);
}

/// The first bytes of a host tensor, or of a twin of it on the device.
at::Tensor C10dOperation::placed(const at::Tensor& host, at::Tensor& twin, std::uint64_t bytes) const {
  const auto count = static_cast<std::int64_t>(bytes);
  if (!group_.staged) return host.narrow(0, 0, count);
  if (!twin.defined() || twin.numel() < count) {
    twin = at::empty({host.numel()}, at::TensorOptions().dtype(at::kByte).device(group_.device));
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
  at::Tensor tensor = placed(sent_, device_sent_, sent_bytes_);
  if (group_.staged) tensor.copy_(sent_.narrow(0, 0, tensor.numel()));
  return tensor;
}

at::Tensor C10dOperation::engine_received() {
  at::Tensor tensor = placed(received_, device_received_, received_bytes_);
  const bool in_place =
      call_.kind == CallKind::all_reduce || call_.kind == CallKind::broadcast || call_.kind == CallKind::barrier;
  if (in_place && group_.staged) tensor.copy_(received_.narrow(0, 0, tensor.numel()));
  return tensor;
}

void C10dOperation::pack() {
  const auto ranks = static_cast<std::uint64_t>(group_.size);
  switch (call_.kind) {
    case CallKind::all_reduce: return copy_bytes(received(call_.bytes), call_.receive, call_.bytes);
    case CallKind::broadcast:
      received(call_.bytes);
      if (group_.rank == call_.root)
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
      const std::uint64_t own = receive_parts_[static_cast<std::size_t>(group_.rank)].bytes;
      received(total(receive_parts_));
      std::byte* target = sent(ranks * own);
      for (std::uint64_t r = 0; r < ranks; ++r) copy_bytes(target + r * own, call_.send, own);
      send_parts_.assign(ranks, Part{0, own});
      return;
    }
    case CallKind::all_to_all_varying: {
      received(total(receive_parts_));
      std::byte* target = sent(total(send_parts_));
      for (const Part& part : send_parts_) {
        copy_bytes(target, call_.send + part.offset, part.bytes);
        target += part.bytes;
      }
      return;
    }
  }
}

void C10dOperation::post(Milliseconds timeout) {
  const bool pairs = call_.kind == CallKind::all_to_all_varying;
  if (!pairs && received_bytes_ == 0) return;  // all ranks know that there is nothing to move
  at::Tensor target = engine_received();
  c10d::Backend& engine = *group_.backend;
  switch (call_.kind) {
    case CallKind::all_reduce:
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
      std::vector<std::int64_t> incoming = sizes_of(receive_parts_);
      std::vector<std::int64_t> outgoing = sizes_of(send_parts_);
      work_ = engine.alltoall_base(target, source, incoming, outgoing, with_timeout<c10d::AllToAllOptions>(timeout));
      return;
    }
  }
}

/// The engine has done its part, or there was none to do.
void C10dOperation::deliver() {
  if (bypasses_engine() && call_.kind != CallKind::all_reduce && call_.kind != CallKind::broadcast) {
    copy_bytes(bytes_of(received_), sent_.defined() ? bytes_of(sent_) : nullptr, sent_.defined() ? sent_bytes_ : 0);
  } else if (group_.staged && work_ != nullptr && received_bytes_ != 0) {
    const auto count = static_cast<std::int64_t>(received_bytes_);
    received_.narrow(0, 0, count).copy_(device_received_.narrow(0, 0, count));
  }
  switch (call_.kind) {
    case CallKind::barrier: return;
    case CallKind::reduce_scatter: return add_in_rank_order();
    case CallKind::all_gather_varying:
    case CallKind::all_to_all_varying: return unpack(receive_parts_);
    case CallKind::broadcast:
      if (group_.rank == call_.root) return;
      [[fallthrough]];
    case CallKind::all_reduce:
    case CallKind::all_gather:
    case CallKind::all_to_all: return copy_bytes(call_.receive, bytes_of(received_), received_bytes_);
  }
}

void C10dOperation::unpack(std::span<const Part> parts) {
  const std::byte* source = bytes_of(received_);
  for (const Part& part : parts) {
    copy_bytes(call_.receive + part.offset, source, part.bytes);
    source += part.bytes;
  }
}

/// Chunks came as an all_to_all: not every engine, in every version, has a reduce_scatter.
void C10dOperation::add_in_rank_order() {
  const std::size_t count = call_.bytes / sizeof(float);
  const auto* chunks = reinterpret_cast<const float*>(bytes_of(received_));
  auto* sum = reinterpret_cast<float*>(call_.receive);
  copy_bytes(call_.receive, bytes_of(received_), call_.bytes);
  for (int r = 1; r < group_.size; ++r) {
    const float* chunk = chunks + static_cast<std::size_t>(r) * count;
    for (std::size_t i = 0; i < count; ++i) sum[i] += chunk[i];
  }
}

}  // namespace laconic::plugin
