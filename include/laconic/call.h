#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace laconic {

enum class Reduction : std::uint8_t { sum, max };

/// Where one rank's bytes lie in a buffer, for calls of varying sizes. Sizes are bytes, and 64 bits everywhere.
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

/// What one rank asks of one collective: what a Communicator's functions make of their arguments, checked against the
/// views and free of their types, and what a transport carries out. all_reduce, reduce_scatter: the bytes are floats.
struct Call {
  CallKind kind = CallKind::barrier;
  Reduction reduction = Reduction::sum;  ///< all_reduce
  int root = 0;                          ///< broadcast
  /// reduce_scatter, all_gather, all_to_all: of one rank; all_to_all_varying and barrier: 0; else of all ranks.
  std::uint64_t bytes = 0;
  const std::byte* send = nullptr;  ///< all_reduce and broadcast work in place and have only `receive`
  std::byte* receive = nullptr;
  std::span<const ByteRange> send_ranges{};     ///< all_to_all_varying; one per rank, valid until start returns
  std::span<const ByteRange> receive_ranges{};  ///< all_to_all_varying, all_gather_varying; likewise
};

/// "all_gather of 16 bytes a rank": what error messages call it.
std::string describe(const Call& call);

}  // namespace laconic
