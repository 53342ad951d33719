#pragma once

#include "codecs/received.h"
#include "codecs/sparse_layout.h"

// How a sparse payload is read. For this layer only.

namespace laconic::sparse {

/// The fields of an opened header, and room for the range's first index.
bool has_header(Received& received, IndexRange range, ValueFormat format, std::uint64_t capacity);
bool has_first(Received& received, std::uint64_t first, IndexRange range);
bool refuse_coding(Received& received);

/// Opens a payload on a device, checks all of it and writes its indices, in one wait. Finds where its values begin.
bool get_entries_on_device(Place& place, View<const std::byte> payload, IndexRange range, const ValueSection& section,
                           View<std::uint32_t> indices, Received& received, std::uint64_t& values_offset);

}  // namespace laconic::sparse
