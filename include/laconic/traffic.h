#pragma once

#include <cstdint>

namespace laconic {

/// What exchanges cost one rank.
struct Traffic {
  std::uint64_t payload_bytes = 0;   ///< this rank's encoded message, whole
  std::uint64_t sent_bytes = 0;      ///< handed to other ranks; an engine's own collective by the ring formula
  std::uint64_t received_bytes = 0;  ///< and taken from them
  std::uint64_t sent_messages = 0;   ///< in which: one a receiver and stage, in a ring one a step
  double encode_seconds = 0.0;
  /// From the start of a message to the moment its arrival was noticed; messages that overlap each other, or a host's
  /// backward, count in full, so that the sum may exceed the clock.
  double exchange_seconds = 0.0;
  double decode_seconds = 0.0;    ///< decode, combine, write out

  Traffic& operator+=(const Traffic& other) {
    payload_bytes += other.payload_bytes;
    sent_bytes += other.sent_bytes;
    received_bytes += other.received_bytes;
    sent_messages += other.sent_messages;
    encode_seconds += other.encode_seconds;
    exchange_seconds += other.exchange_seconds;
    decode_seconds += other.decode_seconds;
    return *this;
  }
};

}  // namespace laconic
