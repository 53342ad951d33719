#include "transport/threads/operation.h"

#include <algorithm>

#include "transport/threads/world.h"

namespace laconic::threads {
namespace {

std::string rank_text(const SharedOperation& operation, std::size_t rank) {
  return "rank " + operation.world.name_of(rank);
}

std::string remedy(std::uint64_t sequence) {
  return " as operation " + std::to_string(sequence) + ": every rank must start the same calls in the same order";
}

bool same_sizes(std::span<const ByteRange> left, std::span<const ByteRange> right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const ByteRange& a, const ByteRange& b) { return a.bytes == b.bytes; });
}

std::string sizes_text(std::span<const ByteRange> ranges) {
  std::string text;
  for (const ByteRange& range : ranges) text += (text.empty() ? "" : ", ") + std::to_string(range.bytes);
  return text;
}

/// The sizes that sender and receiver name for one pair differ.
std::string pair_mismatch(const SharedOperation& operation, std::size_t sender, std::size_t receiver) {
  const std::uint64_t sent = operation.send_ranges[sender][receiver].bytes;
  const std::uint64_t expected = operation.receive_ranges[receiver][sender].bytes;
  if (sent == expected) return {};
  return rank_text(operation, sender) + " called all_to_all_varying with " + std::to_string(sent) + " bytes for " +
         rank_text(operation, receiver) + ", which called it expecting " + std::to_string(expected) +
         remedy(operation.sequence) + " and with the same sizes";
}

}  // namespace

bool ThreadOperation::test() { return world_.test(shared_, rank_); }
void ThreadOperation::wait(Milliseconds timeout) { world_.wait(shared_, rank_, timeout); }
void ThreadOperation::release() noexcept { world_.release(shared_, rank_); }
void ThreadOperation::throw_timeout(Milliseconds timeout) const { world_.throw_timeout(shared_, timeout); }

SharedOperation::SharedOperation(World& its_world, std::size_t ranks)
    : world(its_world), calls(ranks), send_ranges(ranks), receive_ranges(ranks), arrived(ranks), claimed(ranks) {
  for (auto& ranges : send_ranges) ranges.reserve(ranks);
  for (auto& ranges : receive_ranges) ranges.reserve(ranks);
  by_rank.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) by_rank.emplace_back(its_world, *this, rank);
}

void SharedOperation::reset(SharedChannel& new_channel, std::uint64_t new_sequence) {
  channel = &new_channel;
  sequence = new_sequence;
  state = State::gathering;
  std::ranges::fill(arrived, std::uint8_t{0});
  std::ranges::fill(claimed, std::uint8_t{0});
  arrivals = 0;
  finished = 0;
  releases = 0;
  fault.clear();
  ranks_disagree = false;
}

std::string mismatch(const SharedOperation& operation, std::size_t rank) {
  const Call& own = operation.calls[rank];
  for (std::size_t other = 0; other < operation.calls.size(); ++other) {
    if (other == rank || operation.arrived[other] == 0) continue;
    const Call& call = operation.calls[other];
    const bool same =
        own.kind == call.kind && own.reduction == call.reduction && own.root == call.root && own.bytes == call.bytes;
    if (!same) {
      const auto [low, high] = std::minmax(rank, other);
      return rank_text(operation, low) + " called " + describe(operation.calls[low]) + ", " +
             rank_text(operation, high) + " called " + describe(operation.calls[high]) + remedy(operation.sequence);
    }
    if (own.kind == CallKind::all_gather_varying && !same_sizes(own.receive_ranges, call.receive_ranges)) {
      const auto [low, high] = std::minmax(rank, other);
      return rank_text(operation, low) + " called all_gather_varying with sizes " +
             sizes_text(operation.receive_ranges[low]) + ", " + rank_text(operation, high) + " with sizes " +
             sizes_text(operation.receive_ranges[high]) + remedy(operation.sequence);
    }
    if (own.kind == CallKind::all_to_all_varying) {
      for (const std::string& text : {pair_mismatch(operation, rank, other), pair_mismatch(operation, other, rank)}) {
        if (!text.empty()) return text;
      }
    }
  }
  return {};
}

}  // namespace laconic::threads
