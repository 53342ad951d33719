#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "laconic/view.h"

namespace laconic {

enum class Reduction : std::uint8_t { sum, max };

/// Where one rank's bytes lie in a buffer, for calls of varying sizes. Sizes are in bytes and always have 64 bits.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

enum class CallKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_gather_varying,
  all_to_all,
  all_to_all_varying,
  broadcast,
  barrier,
};

/// What one rank asks of one collective. Communicator's functions check their views and build a Call, which no longer
/// has the views' types; a transport executes it. In all_reduce and reduce_scatter the bytes are floats.
struct Call {
  CallKind kind = CallKind::barrier;
  Reduction reduction = Reduction::sum;  ///< for all_reduce
  int root = 0;                          ///< for broadcast
  Device device = Device::cpu;           ///< where the bytes lie
  /// Bytes of one rank in reduce_scatter, all_gather and all_to_all; 0 in all_to_all_varying and barrier; bytes of all
  /// ranks in the other calls.
  std::uint64_t bytes = 0;
  const std::byte* send = nullptr;  ///< all_reduce and broadcast work in place and have only `receive`
  std::byte* receive = nullptr;
  std::span<const ByteRange> send_ranges{};     ///< for all_to_all_varying: one per rank, valid until start returns
  std::span<const ByteRange> receive_ranges{};  ///< likewise, for all_to_all_varying and all_gather_varying
};

/// The name of a call in error messages, such as "all_gather of 16 bytes per rank".
std::string describe(const Call& call);

}  // namespace laconic
