#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "laconic/view.h"

namespace laconic {

class Place;

/// Memory of messages, aligned to 64 bytes. It never shrinks; growing discards the contents. An engine that cannot
/// cancel a collective shares ownership of it (message_owner), because the engine may still write there after the
/// caller has withdrawn and released it. So the contents are valid only while no collective has failed.
class MessageMemory {
 public:
  /// In CPU memory.
  void reserve(std::size_t bytes);
  /// On the place's device; in ordinary CPU memory for any place on the CPU.
  void reserve(Place& place, std::size_t bytes);
  /// The same for lengths that differ between steps: there is a quarter more than asked for, and growing at least
  /// doubles it. On a device what was outgrown stays: to free it would wait for all work of the device, an engine's as
  /// well, which may wait for other ranks.
  void reserve_varying(Place& place, std::size_t bytes);
  /// In CPU memory that the place's device copies without a detour. There is a quarter more than asked for, and growing
  /// at least doubles it: the lengths of messages differ between steps, and each growth waits for the device.
  void reserve_pinned(Place& place, std::size_t bytes);
  View<std::byte> view(std::size_t bytes) const { return {memory_.get(), bytes, device_}; }

 private:
  void wait_before_growing(Place& place, std::size_t bytes) const;
  template <class Allocate>
  void grow(Device device, std::size_t bytes, Allocate&& allocate);

  std::shared_ptr<std::byte> memory_;
  std::vector<std::shared_ptr<std::byte>> outgrown_;
  std::size_t capacity_ = 0;
  Device device_ = Device::cpu;
};

/// Bytes of all message memory that this process holds.
std::size_t message_memory_bytes();

/// A shared owner of the message memory that contains all of these bytes, or null if they lie elsewhere.
std::shared_ptr<std::byte> message_owner(const std::byte* begin, std::size_t bytes);

}  // namespace laconic
