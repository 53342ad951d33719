#pragma once

#include <cstdint>

#include "support/forwarding_communicator.h"

namespace laconic::test {

/// Which of the messages that a rank receives is damaged.
enum class Damage : std::uint8_t { sent, returned, announced, return_announced, broadcast, broadcast_length };

/// The engine underneath, but one bit of what this rank receives is flipped on the way: in the last rank's part of a
/// message of varying sizes (sent: all-to-all, returned: all-gather), in numbers that the last rank announces
/// (announced: messages of equal parts, return_announced: those that are gathered; the byte counts from their end), or
/// in the highest byte of a broadcast of one number (broadcast_length).
class DamagingCommunicator final : public ForwardingCommunicator {
 public:
  DamagingCommunicator(Communicator& inner, Damage damage, std::uint64_t byte)
      : ForwardingCommunicator(inner), damage_(damage), byte_(byte) {}

  bool takes(Device device) const override { return device == Device::cpu; }  // where the bit is flipped
  bool reduces(Device device) const override { return takes(device); }
  Handle start(const Call& call) override {
    Handle handle = ForwardingCommunicator::start(call);
    if (!damages(call)) return handle;
    handle.wait();
    call.receive[damaged_byte(call)] ^= std::byte{4};
    return {};
  }

 private:
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

  Damage damage_;
  std::uint64_t byte_;
};

}  // namespace laconic::test
