#pragma once

#include <cstdint>

#include "codecs/body.h"
#include "codecs/sparse.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/coded/coded.h"
#include "kernels/sparse/indices.h"

// Where the parts of a sparse payload lie. For this layer only.
//   header | first index of the range, 64 bits | indices, padded to 4 bytes | values, padded to 4 bytes
// Values of the formats `sign` and `two`:
//   magnitudes, one or two float32 for each scope that the range meets | a field of 1 or 2 bits for each entry

namespace laconic::sparse {

/// The values of a payload, by its format and the number of scopes that have magnitudes.
struct ValueSection {
  ValueFormat format;
  std::uint64_t scopes;  ///< 0 unless the format is coded

  constexpr std::uint64_t bits_each() const {
    return is_coded(format) ? static_cast<std::uint64_t>(field_bits(format)) : 8 * bytes_of(format);
  }
  /// A payload without entries has none.
  constexpr std::uint64_t magnitudes(std::uint64_t count) const {
    return count == 0 ? 0 : scopes * magnitudes_of(format);
  }
  constexpr std::uint64_t magnitude_bytes(std::uint64_t count) const { return magnitudes(count) * sizeof(float); }
  constexpr std::uint64_t bits(std::uint64_t count) const { return 8 * magnitude_bytes(count) + count * bits_each(); }
  /// With padding.
  constexpr std::uint64_t bytes(std::uint64_t count) const { return padded((bits(count) + 7) / 8); }
};

inline ValueSection section_of(const ValueCoding& coding, IndexRange range) {
  return {coding.format, coding.scopes_of(range).count};
}

/// How indices are written. Stored in bits 1 and 2 of the header's flags.
enum class IndexCoding : std::uint8_t { raw = 0, gaps = 1, bitmap = 2 };

inline constexpr int kCodingShift = 1;
inline constexpr std::uint8_t kCodingMask = 3U << kCodingShift;

inline constexpr std::uint64_t kFirstOffset = sizeof(PayloadHeader);
inline constexpr std::uint64_t kIndicesOffset = kFirstOffset + sizeof(std::uint64_t);

constexpr unsigned coding_of(const PayloadHeader& header) { return (header.flags & kCodingMask) >> kCodingShift; }

constexpr std::uint64_t gap_groups(std::uint64_t count) { return (count + kGapGroup - 1) / kGapGroup; }

/// Bytes of the widths, with padding.
constexpr std::uint64_t width_bytes(std::uint64_t count) { return padded(gap_groups(count)); }

constexpr std::uint64_t raw_bytes(std::uint64_t count) { return count * sizeof(std::uint32_t); }
constexpr std::uint64_t bitmap_bytes(std::uint64_t range_size) { return padded((range_size + 7) / 8); }

/// A gap has at most this many bits.
inline constexpr unsigned kMostWidth = 32;

/// Bits of the packed groups. A full group ends at a whole byte, so only the last byte may have bits left over.
std::uint64_t gap_bits(std::uint64_t count, View<const std::uint8_t> widths);

/// Bytes of widths and packed groups of that many bits, with padding.
constexpr std::uint64_t gap_bytes(std::uint64_t count, std::uint64_t bits) {
  return padded(width_bytes(count) + (bits + 7) / 8);
}

/// Calls body(first entry, entries, width, byte offset behind the widths) for each run of groups of equal width. A run
/// is packed like one long view, so one call packs it and several threads are worth their cost.
template <class Body>
void for_each_run(std::uint64_t count, View<const std::uint8_t> widths, Body&& body);

/// The smallest coding and its bytes. If codings are equally small, the first of raw, gaps, bitmap is chosen.
struct ChosenCoding {
  IndexCoding coding;
  std::uint64_t bytes;
};
constexpr ChosenCoding choose_coding(std::uint64_t count, std::uint64_t range_size, std::uint64_t bits_of_gaps) {
  ChosenCoding chosen{IndexCoding::raw, raw_bytes(count)};
  const std::uint64_t gaps = gap_bytes(count, bits_of_gaps);
  if (gaps < chosen.bytes) chosen = {IndexCoding::gaps, gaps};
  const std::uint64_t bitmap = bitmap_bytes(range_size);
  if (bitmap < chosen.bytes) chosen = {IndexCoding::bitmap, bitmap};
  return chosen;
}

}  // namespace laconic::sparse

// ---------------------------------------------------------------------------------------------------------------------

#include <algorithm>

#include "kernels/bitpack/bitpack.h"

namespace laconic::sparse {

template <class Body>
void for_each_run(std::uint64_t count, View<const std::uint8_t> widths, Body&& body) {
  std::uint64_t offset = 0;
  for (std::uint64_t group = 0; group < widths.size();) {
    const std::uint8_t width = widths[group];
    const std::uint64_t first = group * kPackGroup;
    while (group < widths.size() && widths[group] == width) ++group;
    const std::uint64_t entries = std::min(count, group * kPackGroup) - first;
    body(first, entries, width, offset);
    offset += packed_bytes(entries, width);
  }
}

}  // namespace laconic::sparse
