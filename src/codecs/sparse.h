#pragma once

#include "codecs/payload.h"
#include "kernels/topk/topk.h"

namespace laconic::sparse {

/// A stretch of the index space: payloads carry indices relative to `first`.
struct IndexRange {
  std::uint64_t first = 0;
  std::uint64_t size = 0;
};

/// Enough for any `count` entries of a range of `size`, whichever index coding is chosen.
std::uint64_t max_payload_bytes(std::uint64_t count, std::uint64_t size, ValueFormat format);

/// Entries by ascending index, all inside the range. Indices are written as the smallest of raw 32-bit, bit-packed gaps
/// (a width for each 512) and a bitmap. status.payload_bytes is the length.
void encode(Place& place, ConstSparseView entries, IndexRange range, ValueFormat format, View<std::byte> payload,
            StatusView status);

/// Entries of a payload as its header says; 0 if it is shorter than a header. For sizing buffers, before decoding.
std::uint64_t peek_count(View<const std::byte> payload);

/// Writes status.count entries, at most entries.size(), with absolute indices, ascending. Refuses other ranges and
/// formats, more entries than fit, and any index outside the range or out of order; then nothing counts as written
/// (status.count = 0) though `entries` may hold a prefix. False on a fault.
bool decode(Place& place, View<const std::byte> payload, IndexRange range, ValueFormat format, SparseView entries,
            StatusView status);

}  // namespace laconic::sparse
