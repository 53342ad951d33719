#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convert/convert.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/version.h"
#include "laconic/view.h"

namespace laconic {

/// Which codec wrote a payload. Numbers are on the wire.
enum class Codec : std::uint8_t { dense = 1, sparse = 2, block = 3, sign = 4, uniform = 5 };

/// Every payload begins with this, little endian; docs/wire-format.md has the table.
struct PayloadHeader {
  std::uint32_t magic;          ///< kPayloadMagic
  std::uint8_t version;         ///< kWireVersion
  std::uint8_t codec;           ///< Codec
  std::uint8_t format;          ///< of the values: ValueFormat, or bits of a uniform field; 1 for signs
  std::uint8_t flags;           ///< kNonfiniteFlag; the sparse codec's index coding above it
  std::uint64_t payload_bytes;  ///< header and body
  std::uint64_t elements;       ///< entries of the view that was encoded
  std::uint32_t count;          ///< sparse: entries; block: signature; dense: too, or 0; uniform: sender's norm; else 0
  std::uint32_t checksum;       ///< over the whole payload with this field zero
};
static_assert(sizeof(PayloadHeader) == 32);

inline constexpr std::uint32_t kPayloadMagic = 0x314E434C;  // "LCN1"
inline constexpr std::uint8_t kNonfiniteFlag = 1;           ///< the rank that wrote it met NaN or Inf this step

/// A payload starts at a multiple of this many bytes in memory (InvalidConfig otherwise), its length is a multiple, and
/// filling is zero: so payloads that follow each other stay aligned.
inline constexpr std::uint64_t kPayloadAlignment = 4;

/// Writes header and checksum around a body that is in place, and status.payload_bytes. magic, version, checksum and
/// the non-finite flag, which is taken from status.nonfinite, are filled in; the other fields are the caller's.
void seal_payload(Place& place, PayloadHeader header, View<std::byte> payload, StatusView status);

/// Checks magic, version, codec, lengths and checksum of what arrived; extra bytes behind payload_bytes are not looked
/// at. On a fault it notes it in status, unless an earlier one stands there, and returns false: the caller writes
/// nothing. A sender's non-finite flag is not passed on yet: the caller does that once it accepts the payload.
bool open_payload(Place& place, View<const std::byte> payload, Codec codec, PayloadHeader& header, StatusView status);

/// Seals a payload again whose rank met a non-finite value after it was sealed: status.nonfinite is set.
void flag_payload(Place& place, View<std::byte> payload, StatusView status);

/// Whether the sender of a payload that was opened met a non-finite value.
bool is_flagged(Place& place, View<const std::byte> payload);

/// Notes a fault if none is noted yet; returns false, for `return note_fault(...)`.
bool note_fault(StatusView status, PayloadFault fault, std::uint64_t offset, std::uint64_t found,
                std::uint64_t expected);

}  // namespace laconic
