#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/each.h"
#include "kernels/convert/convert.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/version.h"
#include "laconic/view.h"

namespace laconic {

/// Which codec wrote a payload. The numbers are sent on the wire.
enum class Codec : std::uint8_t { dense = 1, sparse = 2, block = 3, sign = 4, uniform = 5 };

/// Every payload begins with this header, in little endian; docs/wire-format.md has the table.
struct PayloadHeader {
  std::uint32_t magic;          ///< kPayloadMagic
  std::uint8_t version;         ///< kWireVersion
  std::uint8_t codec;           ///< Codec
  std::uint8_t format;          ///< of the values: ValueFormat, or bits of a uniform field; 1 for signs
  std::uint8_t flags;           ///< kNonfiniteFlag; in higher bits the sparse codec's index coding
  std::uint64_t payload_bytes;  ///< header and body
  std::uint64_t elements;       ///< entries of the view that was encoded
  std::uint32_t count;          ///< sparse: entries; block: signature; dense: signature or 0; uniform: norm; sign: 0
  std::uint32_t checksum;       ///< over the whole payload with this field zero
};
static_assert(sizeof(PayloadHeader) == 32);

inline constexpr std::uint32_t kPayloadMagic = 0x314E434C;  // "LCN1"
inline constexpr std::uint8_t kNonfiniteFlag = 1;           ///< the sender met NaN or Inf in this step

/// A payload's start in memory and its length are multiples of this many bytes, and padding is zero, so consecutive
/// payloads stay aligned. For any other start a codec throws InvalidConfig.
inline constexpr std::uint64_t kPayloadAlignment = 4;

/// A payload that arrived, and the range of entries that it must contain.
struct ReceivedRange {
  View<const std::byte> payload;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
};

/// Receives the number of a payload and its values, where they lie.
using TakeValues = FunctionRef<void(std::size_t, ConstGradientView)>;

/// Writes header and checksum for a body that is in place, and sets status.payload_bytes. It fills in magic, version,
/// checksum and the non-finite flag, which it takes from status.nonfinite; the caller sets the other fields.
void seal_payload(Place& place, PayloadHeader header, View<std::byte> payload, StatusView status);

/// Seals a payload again because this rank met a non-finite value after it was sealed; status.nonfinite must be set.
void flag_payload(Place& place, View<std::byte> payload, StatusView status);

/// The lengths of payloads that were sealed here. On a device it waits once.
void read_lengths(Place& place, std::span<const View<const std::byte>> payloads, std::span<std::uint64_t> lengths);

/// Whether the sender of an opened payload met a non-finite value.
bool is_flagged(Place& place, View<const std::byte> payload);

/// Notes which senders of opened payloads met a non-finite value: sets status.nonfinite, and lowers nonfinite_rank to
/// the first of them if it is above or 0. The payloads are those of `first_rank` and the ranks after it. With
/// `only_if_none` it does nothing if a rank has been noted already. Does not wait.
void note_flagged(Place& place, Each<View<const std::byte>> payloads, int first_rank, StatusView status,
                  bool only_if_none = false);

/// Notes a fault if none is noted yet; returns false, for `return note_fault(...)`.
bool note_fault(Place& place, StatusView status, PayloadFault fault, std::uint64_t offset, std::uint64_t found,
                std::uint64_t expected);

}  // namespace laconic
