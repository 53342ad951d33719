#include "transport/threads/meeting.h"

#include <algorithm>

#include "transport/threads/world.h"

namespace laconic::threads {
namespace {

std::string rank_text(std::size_t rank) { return "rank " + std::to_string(rank); }

std::string remedy(std::uint64_t sequence) {
  return " as operation " + std::to_string(sequence) + ": every rank must start the same calls in the same order";
}

bool same_sizes(std::span<const Part> left, std::span<const Part> right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const Part& a, const Part& b) { return a.bytes == b.bytes; });
}

std::string sizes_text(std::span<const Part> parts) {
  std::string text;
  for (const Part& part : parts) text += (text.empty() ? "" : ", ") + std::to_string(part.bytes);
  return text;
}

/// The sizes that sender and receiver name for one pair differ.
std::string pair_mismatch(const Meeting& meeting, std::size_t sender, std::size_t receiver) {
  const std::uint64_t sent = meeting.send_parts[sender][receiver].bytes;
  const std::uint64_t expected = meeting.receive_parts[receiver][sender].bytes;
  if (sent == expected) return {};
  return rank_text(sender) + " called all_to_all_varying with " + std::to_string(sent) + " bytes for " +
         rank_text(receiver) + ", which called it expecting " + std::to_string(expected) + remedy(meeting.sequence) +
         " and with the same sizes";
}

}  // namespace

bool ThreadOperation::test() { return world_.test(meeting_, rank_); }
void ThreadOperation::wait(Milliseconds timeout) { world_.wait(meeting_, rank_, timeout); }
void ThreadOperation::release() noexcept { world_.release(meeting_, rank_); }

Meeting::Meeting(World& world, std::size_t ranks)
    : calls(ranks), send_parts(ranks), receive_parts(ranks), arrived(ranks), claimed(ranks) {
  for (auto& parts : send_parts) parts.reserve(ranks);
  for (auto& parts : receive_parts) parts.reserve(ranks);
  operations.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) operations.emplace_back(world, *this, rank);
}

void Meeting::reset(Lane& new_lane, std::uint64_t new_sequence) {
  lane = &new_lane;
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

std::string mismatch(const Meeting& meeting, std::size_t rank) {
  const Call& own = meeting.calls[rank];
  for (std::size_t other = 0; other < meeting.calls.size(); ++other) {
    if (other == rank || meeting.arrived[other] == 0) continue;
    const Call& call = meeting.calls[other];
    const bool same =
        own.kind == call.kind && own.reduction == call.reduction && own.root == call.root && own.bytes == call.bytes;
    if (!same) {
      const auto [low, high] = std::minmax(rank, other);
      return rank_text(low) + " called " + describe(meeting.calls[low]) + ", " + rank_text(high) + " called " +
             describe(meeting.calls[high]) + remedy(meeting.sequence);
    }
    if (own.kind == CallKind::all_gather_varying && !same_sizes(own.receive_parts, call.receive_parts)) {
      const auto [low, high] = std::minmax(rank, other);
      return rank_text(low) + " called all_gather_varying with sizes " + sizes_text(meeting.receive_parts[low]) + ", " +
             rank_text(high) + " with sizes " + sizes_text(meeting.receive_parts[high]) + remedy(meeting.sequence);
    }
    if (own.kind == CallKind::all_to_all_varying) {
      for (const std::string& text : {pair_mismatch(meeting, rank, other), pair_mismatch(meeting, other, rank)}) {
        if (!text.empty()) return text;
      }
    }
  }
  return {};
}

}  // namespace laconic::threads
