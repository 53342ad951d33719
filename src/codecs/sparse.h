#pragma once

#include <span>

#include "codecs/payload.h"
#include "kernels/coded/scope_cuts.h"
#include "kernels/topk/topk.h"

namespace laconic::sparse {

/// A range of the index space. Payloads contain indices relative to `first`.
struct IndexRange {
  std::uint64_t first = 0;
  std::uint64_t size = 0;
};

/// How values are written. The formats `sign` and `two` have magnitudes for each scope, whose cuts both ends know.
struct ValueCoding {
  ValueCoding(ValueFormat format_, ScopeCuts cuts_ = {}) : format(format_), cuts(cuts_) {}  // NOLINT: most have no cuts

  ValueFormat format;
  ScopeCuts cuts;  ///< of all indices, not only those of a range

  /// Scopes that a range meets, if they have magnitudes.
  ScopeSpan scopes_of(IndexRange range) const {
    return is_coded(format) ? cuts.of(range.first, range.size) : ScopeSpan{};
  }
};

/// Enough for any `count` entries of a range, with any index coding.
std::uint64_t max_payload_bytes(std::uint64_t count, IndexRange range, const ValueCoding& coding);
inline std::uint64_t max_payload_bytes(std::uint64_t count, std::uint64_t size, ValueFormat format) {
  return max_payload_bytes(count, {0, size}, format);
}

/// Entries must have ascending indices inside the range. Indices are written in the smallest of three codings: raw
/// 32-bit numbers, bit-packed gaps (one width per 512 gaps), or a bitmap. status.payload_bytes is the length. For other
/// indices it throws InvalidConfig; on a device, which it does not wait for, it notes wrong_index in the status, found
/// being the position of the first such entry, and receivers reject the payload. In the formats `sign` and `two` the
/// values must be those that code_values made: nothing is rounded here. Others are refused in the same way, on a device
/// by wrong_norm.
void encode(Place& place, ConstSparseView entries, IndexRange range, const ValueCoding& coding, View<std::byte> payload,
            StatusView status);

/// A list that arrived.
struct ReceivedList {
  View<const std::byte> payload;
  IndexRange range;
  SparseView entries;       ///< room for them
  std::uint64_t count = 0;  ///< how many there are; `decode` writes it
};

/// Writes the entries of each list, with absolute, ascending indices. Rejects other ranges and formats, more entries
/// than there is room for, any index outside the range or out of order, and magnitudes that are not finite or are
/// negative. At the first such list it returns false: the counts from there on and status.count are 0, although rooms
/// may hold a prefix of their entries. Otherwise status.count is the number of all entries. On a device it waits once
/// for 32 lists.
bool decode(Place& place, std::span<ReceivedList> lists, const ValueCoding& coding, StatusView status);
inline bool decode(Place& place, View<const std::byte> payload, IndexRange range, const ValueCoding& coding,
                   SparseView entries, StatusView status) {
  ReceivedList list{payload, range, entries};
  return decode(place, {&list, 1}, coding, status);
}

}  // namespace laconic::sparse
