#pragma once

#include <cstdint>

#include "base/transfer.h"
#include "support/forwarding_communicator.h"

namespace laconic::test {

/// Which of the messages that a rank receives is damaged.
enum class Damage : std::uint8_t { sent, returned, announced, return_announced, broadcast, broadcast_length };

/// The engine underneath, but one bit of what this rank receives is flipped on the way: in the last rank's part of a
/// message of varying sizes (sent: all-to-all, returned: all-gather), in numbers that the last rank announces
/// (announced: messages of equal parts, return_announced: those that are gathered; the byte counts from their end), or
/// in the highest byte of a broadcast of one number (broadcast_length). Bytes that lie on a device are those of
/// `place`.
class DamagingCommunicator final : public ForwardingCommunicator {
 public:
  DamagingCommunicator(Communicator& inner, Place& place, Damage damage, std::uint64_t byte)
      : ForwardingCommunicator(inner), place_(place), damage_(damage), byte_(byte) {}

  Handle start(const Call& call) override {
    Handle handle = ForwardingCommunicator::start(call);
    if (!damages(call)) return handle;
    handle.wait();
    flip_a_bit({call.receive + damaged_byte(call), 1, call.device});
    return {};
  }

 private:
  void flip_a_bit(View<std::byte> byte) {
    if (byte.device() == Device::cpu) {
      byte[0] ^= std::byte{4};
      return;
    }
    const std::byte flipped = read_one<std::byte>(place_, byte) ^ std::byte{4};
    copy_from_cpu(place_, &flipped, byte);
  }
  bool damages(const Call& call) const {
    const CallKind kind = call.kind;
    const bool is_number = call.bytes == sizeof(std::uint64_t);
    switch (damage_) {
      case Damage::sent: return kind == CallKind::all_to_all_varying;
      case Damage::returned: return kind == CallKind::all_gather_varying;
      case Damage::announced: return kind == CallKind::all_gather || kind == CallKind::all_to_all;
      case Damage::return_announced: return kind == CallKind::all_gather;
      case Damage::broadcast: return kind == CallKind::broadcast && !is_number;
      case Damage::broadcast_length: return kind == CallKind::broadcast && is_number;
    }
    return false;
  }
  std::uint64_t damaged_byte(const Call& call) const {
    if (damage_ == Damage::announced || damage_ == Damage::return_announced) {
      return call.bytes * static_cast<std::uint64_t>(size()) - 1 - byte_;
    }
    if (damage_ == Damage::broadcast_length) return call.bytes - 1;
    if (damage_ == Damage::broadcast) return byte_;
    return call.receive_ranges.back().offset + byte_;
  }

  Place& place_;
  Damage damage_;
  std::uint64_t byte_;
};

}  // namespace laconic::test
