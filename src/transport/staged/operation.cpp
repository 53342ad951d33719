#include "transport/staged/operation.h"

#include <algorithm>
#include <span>

#include "base/device_queue.h"

namespace laconic::staged {
namespace {

/// The bytes behind the last range.
std::uint64_t end_of(std::span<const ByteRange> ranges) {
  std::uint64_t end = 0;
  for (const ByteRange& range : ranges) end = std::max(end, range.offset + range.bytes);
  return end;
}

/// Bytes of `send` in a call whose sent bytes are contiguous.
std::uint64_t sent_bytes(const Call& call, int rank, int size) {
  switch (call.kind) {
    case CallKind::all_gather: return call.bytes;
    case CallKind::all_gather_varying: return call.receive_ranges[static_cast<std::size_t>(rank)].bytes;
    case CallKind::reduce_scatter:
    case CallKind::all_to_all: return call.bytes * static_cast<std::uint64_t>(size);
    default: return 0;
  }
}

/// Bytes of `receive` in a call whose received bytes are contiguous.
std::uint64_t received_bytes(const Call& call, int size) {
  switch (call.kind) {
    case CallKind::all_gather:
    case CallKind::all_to_all: return call.bytes * static_cast<std::uint64_t>(size);
    case CallKind::all_reduce:
    case CallKind::reduce_scatter:
    case CallKind::broadcast: return call.bytes;
    default: return 0;
  }
}

}  // namespace

void StagedOperation::begin(Communicator& engine, const Call& call) {
  Call on_cpu = call;
  on_cpu.device = Device::cpu;
  on_cpu.send = stage_sent(call, engine.rank(), engine.size());
  on_cpu.receive = stage_received(call, engine.rank(), engine.size());
  // Also for the bytes that an earlier call received: they have left the pinned memory.
  place_.queue()->wait();
  pending_ = engine.start(on_cpu);
}

std::byte* StagedOperation::stage_sent(const Call& call, int rank, int size) {
  if (call.send == nullptr) return nullptr;
  const ByteRange whole{0, sent_bytes(call, rank, size)};
  const std::span<const ByteRange> ranges =
      call.kind == CallKind::all_to_all_varying ? call.send_ranges : std::span(&whole, 1);
  const std::uint64_t bytes = end_of(ranges);
  sent_.reserve_pinned(place_, bytes);
  std::byte* staged = sent_.view(bytes).data();
  for (const ByteRange& range : ranges) {
    if (range.bytes > 0) place_.queue()->copy(staged + range.offset, call.send + range.offset, range.bytes);
  }
  return staged;
}

std::byte* StagedOperation::stage_received(const Call& call, int rank, int size) {
  const ByteRange whole{0, received_bytes(call, size)};
  const std::span<const ByteRange> ranges = call.receive_ranges.empty() ? std::span(&whole, 1) : call.receive_ranges;
  arriving_.assign(ranges.begin(), ranges.end());
  const std::uint64_t bytes = end_of(ranges);
  received_.reserve_pinned(place_, bytes);
  staged_ = received_.view(bytes).data();
  destination_ = call.receive;
  const bool sends_it = call.kind == CallKind::all_reduce || (call.kind == CallKind::broadcast && call.root == rank);
  if (sends_it && bytes > 0) place_.queue()->copy(staged_, call.receive, bytes);
  return staged_;
}

void StagedOperation::copy_in() {
  for (const ByteRange& range : arriving_) {
    if (range.bytes > 0) place_.queue()->copy(destination_ + range.offset, staged_ + range.offset, range.bytes);
  }
  arriving_.clear();
}

bool StagedOperation::test() {
  if (!pending_.test()) return false;
  copy_in();
  return true;
}

void StagedOperation::wait(Milliseconds timeout) {
  pending_.wait(timeout);
  copy_in();
}

void StagedOperation::release() noexcept {
  pending_ = {};
  arriving_.clear();
  pool_.give_back(*this);
}

}  // namespace laconic::staged
