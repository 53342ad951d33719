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

}  // namespace

void move_to(std::span<const Call> calls, std::size_t destination) {
  const Call& target = calls[destination];
  switch (target.kind) {
    case CallKind::all_reduce: return all_reduce(calls, destination);
    case CallKind::reduce_scatter: return reduce_scatter(calls, destination);
    case CallKind::all_gather:
      for (std::size_t r = 0; r < calls.size(); ++r)
        copy_bytes(target.receive + r * target.bytes, calls[r].send, target.bytes);
      return;
    case CallKind::all_gather_varying:
      for (std::size_t r = 0; r < calls.size(); ++r) {
        copy_bytes(target.receive + target.receive_ranges[r].offset, calls[r].send, target.receive_ranges[r].bytes);
      }
      return;
    case CallKind::all_to_all:
      for (std::size_t r = 0; r < calls.size(); ++r) {
        copy_bytes(target.receive + r * target.bytes, calls[r].send + destination * target.bytes, target.bytes);
      }
      return;
    case CallKind::all_to_all_varying:
      for (std::size_t r = 0; r < calls.size(); ++r) {
        const ByteRange& landing = target.receive_ranges[r];
        copy_bytes(target.receive + landing.offset, calls[r].send + calls[r].send_ranges[destination].offset,
                   landing.bytes);
      }
      return;
    case CallKind::broadcast:
      copy_bytes(target.receive, calls[static_cast<std::size_t>(target.root)].receive, target.bytes);
      return;
    case CallKind::barrier: return;
  }
}

}  // namespace laconic::threads
