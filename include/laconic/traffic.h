#pragma once

#include <cstdint>

namespace laconic {

/// What exchanges cost one rank.
struct Traffic {
  std::uint64_t payload_bytes = 0;   ///< size of this rank's whole encoded message
  std::uint64_t sent_bytes = 0;      ///< to other ranks; the ring formula estimates an engine's own collectives
  std::uint64_t received_bytes = 0;  ///< from other ranks, counted in the same way
  std::uint64_t sent_messages = 0;   ///< one per receiver and stage; in a ring, one per step of the ring
  double encode_seconds = 0.0;
  /// From the start of a message until its arrival was noticed. Messages that overlap each other or a host's backward
  /// pass count in full, so the sum may exceed the elapsed time.
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
