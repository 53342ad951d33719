#include "transport/threads/movement.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/thread_pool.h"
#include "transport/copy_bytes.h"

namespace laconic::threads {
namespace {

/// Entries summed at a time: the partial sums stay in the first-level cache.
constexpr std::size_t kTile = 2048;

const float* floats(const std::byte* bytes) { return reinterpret_cast<const float*>(bytes); }
float* floats(std::byte* bytes) { return reinterpret_cast<float*>(bytes); }

void accumulate(Reduction reduction, const float* source, std::size_t count, float* sums) {
  if (reduction == Reduction::sum) {
    for (std::size_t i = 0; i < count; ++i) sums[i] += source[i];
  } else {
    for (std::size_t i = 0; i < count; ++i) sums[i] = sums[i] < source[i] ? source[i] : sums[i];
  }
}

/// Reduces entries [begin, end) over all ranks, tile by tile: input(rank) has the entries, output(tile begin, sums,
/// count) takes them.
template <class Input, class Output>
void reduce(std::span<const Call> calls, Range range, Input&& input, Output&& output) {
  std::array<float, kTile> sums;
  for (std::size_t begin = range.begin; begin < range.end; begin += kTile) {
    const std::size_t count = std::min(kTile, range.end - begin);
    std::memcpy(sums.data(), input(calls[0]) + begin, count * sizeof(float));
    for (const Call& call : calls.subspan(1)) accumulate(call.reduction, input(call) + begin, count, sums.data());
    output(begin, sums.data(), count);
  }
}

void all_reduce(std::span<const Call> calls, std::size_t destination) {
  const Range range = part_of(calls[0].bytes / sizeof(float), destination, calls.size(), 16);
  reduce(
      calls, range, [](const Call& call) { return floats(call.receive); },
      [&](std::size_t begin, const float* sums, std::size_t count) {
        for (const Call& call : calls) std::memcpy(floats(call.receive) + begin, sums, count * sizeof(float));
      });
}

void reduce_scatter(std::span<const Call> calls, std::size_t destination) {
  const Call& target = calls[destination];
  const std::size_t entries = target.bytes / sizeof(float);
  reduce(
      calls, {0, entries}, [&](const Call& call) { return floats(call.send) + destination * entries; },
      [&](std::size_t begin, const float* sums, std::size_t count) {
        std::memcpy(floats(target.receive) + begin, sums, count * sizeof(float));
      });
}

/// Copies one rank's bytes to another rank.
class Copies {
 public:
  explicit Copies(DeviceQueue* queue) : queue_(queue) {}

  void add(const Call& receiver, std::uint64_t offset, const Call& sender, const std::byte* from, std::uint64_t bytes) {
    std::byte* to = receiver.receive + offset;
    if (receiver.device == Device::cpu && sender.device == Device::cpu) return copy_bytes(to, from, bytes);
    if (bytes == 0 || to == from) return;
    queue_->copy(to, from, bytes);
    unfinished_ = true;
  }

  void finish() {
    if (unfinished_) queue_->wait();
  }

 private:
  DeviceQueue* queue_;
  bool unfinished_ = false;
};

void copy_to(std::span<const Call> calls, std::size_t destination, Copies& copies) {
  const Call& target = calls[destination];
  for (std::size_t r = 0; r < calls.size(); ++r) {
    const Call& source = calls[r];
    switch (target.kind) {
      case CallKind::all_gather: copies.add(target, r * target.bytes, source, source.send, target.bytes); break;
      case CallKind::all_gather_varying:
        copies.add(target, target.receive_ranges[r].offset, source, source.send, target.receive_ranges[r].bytes);
        break;
      case CallKind::all_to_all:
        copies.add(target, r * target.bytes, source, source.send + destination * target.bytes, target.bytes);
        break;
      case CallKind::all_to_all_varying:
        copies.add(target, target.receive_ranges[r].offset, source,
                   source.send + source.send_ranges[destination].offset, target.receive_ranges[r].bytes);
        break;
      case CallKind::broadcast:
        if (r == static_cast<std::size_t>(target.root)) copies.add(target, 0, source, source.receive, target.bytes);
        break;
      default: break;
    }
  }
}

}  // namespace

void move_to(std::span<const Call> calls, std::size_t destination, DeviceQueue* queue) {
  const CallKind kind = calls[destination].kind;
  if (kind == CallKind::all_reduce) return all_reduce(calls, destination);
  if (kind == CallKind::reduce_scatter) return reduce_scatter(calls, destination);
  Copies copies(queue);
  copy_to(calls, destination, copies);
  copies.finish();
}

}  // namespace laconic::threads
