#pragma once

#include "codecs/received.h"
#include "codecs/sparse_layout.h"
#include "codecs/sparse_twins.h"

// How a sparse payload is read. For this layer only.

namespace laconic::sparse {

/// The fields of an opened header.
bool has_header(Received& received, const ReceivedList& list, ValueFormat format);
bool has_first(Received& received, std::uint64_t first, IndexRange range);
bool refuse_coding(Received& received);

/// Checks what a device has found in a payload, whose indices it has written. Finds where its values begin.
bool has_sound_indices(Received& received, const cuda::SparseInspection& found, const ReceivedList& list,
                       const ValueSection& section, std::uint64_t& values_offset);

}  // namespace laconic::sparse
