#include "codecs/sparse_received.h"

#include <algorithm>

#include "codecs/sparse_layout.h"

namespace laconic::sparse {

bool has_header(Received& received, const ReceivedList& list, ValueFormat format) {
  const PayloadHeader& header = received.header();
  if (!received.has_flags(kNonfiniteFlag | kCodingMask) || !received.has_format(static_cast<std::uint8_t>(format)) ||
      !received.has_elements(list.range.size)) {
    return false;
  }
  const std::uint64_t most = std::min<std::uint64_t>(list.entries.size(), list.range.size);
  if (header.count > most) {
    return received.refuse(PayloadFault::wrong_count, offsetof(PayloadHeader, count), header.count, most);
  }
  return header.payload_bytes >= kIndicesOffset || received.has_length(kIndicesOffset);
}

bool has_first(Received& received, std::uint64_t first, IndexRange range) {
  return first == range.first || received.refuse(PayloadFault::wrong_elements, kFirstOffset, first, range.first);
}

bool refuse_coding(Received& received) {
  return received.refuse(PayloadFault::wrong_format, offsetof(PayloadHeader, flags), coding_of(received.header()), 2);
}

namespace {

/// As get_gaps on the CPU, but for the indices themselves.
bool has_gaps(Received& received, const cuda::SparseInspection& found, std::uint64_t values) {
  const PayloadHeader& header = received.header();
  const std::uint64_t groups_offset = kIndicesOffset + width_bytes(header.count);
  if (header.payload_bytes < groups_offset) return received.has_length(groups_offset);
  if (found.wrong_group != cuda::kNoGroup) {
    return received.refuse(PayloadFault::wrong_format, kIndicesOffset + found.wrong_group, found.wrong_width,
                           kMostWidth);
  }
  return received.has_length(kIndicesOffset + gap_bytes(header.count, found.gap_bits) + values) &&
         received.has_sound(filling_of(kIndicesOffset, 8 * gap_groups(header.count)), found.widths_end) &&
         received.has_sound(filling_of(groups_offset, found.gap_bits), found.gaps_end);
}

}  // namespace

bool has_sound_indices(Received& received, const cuda::SparseInspection& found, const ReceivedList& list,
                       const ValueSection& section, std::uint64_t& values_offset) {
  if (!received.open(Codec::sparse, found.payload) || !has_header(received, list, section.format) ||
      !has_first(received, found.first, list.range)) {
    return false;
  }
  const std::uint64_t count = received.header().count;
  const std::uint64_t values = section.bytes(count);
  std::uint64_t index_bytes = 0;
  switch (static_cast<IndexCoding>(coding_of(received.header()))) {
    case IndexCoding::raw: index_bytes = raw_bytes(count); break;
    case IndexCoding::bitmap: index_bytes = bitmap_bytes(list.range.size); break;
    case IndexCoding::gaps:
      if (!has_gaps(received, found, values)) return false;
      index_bytes = gap_bytes(count, found.gap_bits);
      break;
    default: return refuse_coding(received);
  }
  if (!received.has_length(kIndicesOffset + index_bytes + values)) return false;
  if (found.wrong_indices != 0) {
    return received.refuse(PayloadFault::wrong_index, kIndicesOffset, count, list.range.size);
  }
  values_offset = kIndicesOffset + index_bytes;
  if (found.wrong_magnitude != cuda::kNoMagnitude) {
    return received.has_sound(norms_at(values_offset + found.wrong_magnitude * sizeof(float), 1), found.magnitude);
  }
  return received.has_sound(filling_of(values_offset, section.bits(count)), found.values_end);
}

}  // namespace laconic::sparse
