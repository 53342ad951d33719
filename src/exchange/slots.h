#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/message_memory.h"
#include "codecs/payload.h"
#include "laconic/communicator.h"
#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// One payload per rank in one buffer, each beginning on a cache line. First set the capacities, then fill the slots
/// and set the lengths; the communicator reads `ranges`. Memory never shrinks, so a step like the last one allocates
/// nothing.
class Slots {
 public:
  /// In the place's memory, on a device as well.
  Slots(Place& place, int ranks)
      : place_(place),
        ranges_(static_cast<std::size_t>(ranks)),
        capacities_(ranges_.size()),
        payloads_(ranges_.size()),
        arrived_(ranges_.size()) {}

  /// Sets the capacity of each rank's slot in bytes. Lengths start equal to the capacities.
  template <class CapacityOf>
  void lay_out(CapacityOf&& capacity_of) {
    set_ranges(capacity_of);
    buffer_.reserve(place_, total_);
  }
  /// The same for lengths that differ from step to step.
  template <class CapacityOf>
  void lay_out_varying(CapacityOf&& capacity_of) {
    set_ranges(capacity_of);
    buffer_.reserve_varying(place_, total_);
  }

  /// Makes room in advance for layouts of up to that many bytes.
  void reserve(std::uint64_t bytes) { buffer_.reserve(place_, bytes + ranges_.size() * kLine); }

  int ranks() const { return static_cast<int>(ranges_.size()); }
  View<std::byte> slot(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return buffer_.view(total_).sub(ranges_[index].offset, capacities_[index]);
  }
  void set_length(int rank, std::uint64_t bytes) { ranges_[static_cast<std::size_t>(rank)].bytes = bytes; }
  std::uint64_t length(int rank) const { return ranges_[static_cast<std::size_t>(rank)].bytes; }
  View<const std::byte> payload(int rank) const {
    const ByteRange& range = ranges_[static_cast<std::size_t>(rank)];
    return buffer_.view(total_).sub(range.offset, range.bytes);
  }
  /// All of them, by rank, as they are now.
  std::span<const View<const std::byte>> payloads() {
    for (int rank = 0; rank < ranks(); ++rank) payloads_[static_cast<std::size_t>(rank)] = payload(rank);
    return payloads_;
  }
  /// The same with the range of entries that each must contain: borders_of(rank).
  template <class BordersOf>
  std::span<const ReceivedRange> arrived(BordersOf&& borders_of) {
    for (int rank = 0; rank < ranks(); ++rank) {
      const auto [begin, end] = borders_of(rank);
      arrived_[static_cast<std::size_t>(rank)] = {payload(rank), begin, end};
    }
    return arrived_;
  }
  std::uint64_t payload_bytes() const {
    std::uint64_t sum = 0;
    for (const ByteRange& range : ranges_) sum += range.bytes;
    return sum;
  }

  View<std::byte> bytes() const { return buffer_.view(total_); }
  std::span<const ByteRange> ranges() const { return ranges_; }

 private:
  static constexpr std::uint64_t kLine = 64;

  template <class CapacityOf>
  void set_ranges(CapacityOf&& capacity_of) {
    total_ = 0;
    for (std::size_t rank = 0; rank < ranges_.size(); ++rank) {
      const std::uint64_t capacity = capacity_of(static_cast<int>(rank));
      ranges_[rank] = {total_, capacity};
      capacities_[rank] = capacity;
      total_ += (capacity + kLine - 1) / kLine * kLine;
    }
  }

  Place& place_;
  std::vector<ByteRange> ranges_;
  std::vector<std::uint64_t> capacities_;
  std::vector<View<const std::byte>> payloads_;
  std::vector<ReceivedRange> arrived_;
  MessageMemory buffer_;
  std::uint64_t total_ = 0;
};

}  // namespace laconic
