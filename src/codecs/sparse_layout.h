#pragma once

#include <cstdint>

#include "codecs/sparse.h"

// Where the parts of a sparse payload lie. For this layer only.
//   header | first index of the range, 64 bits | indices, padded to 4 bytes | values, padded to 4 bytes

namespace laconic::sparse {

/// How indices are written. Stored in bits 1 and 2 of the header's flags.
enum class IndexCoding : std::uint8_t { raw = 0, gaps = 1, bitmap = 2 };

inline constexpr int kCodingShift = 1;
inline constexpr std::uint8_t kCodingMask = 3U << kCodingShift;

inline constexpr std::uint64_t kFirstOffset = sizeof(PayloadHeader);
inline constexpr std::uint64_t kIndicesOffset = kFirstOffset + sizeof(std::uint64_t);

std::uint64_t gap_groups(std::uint64_t count);

/// Bytes of the widths, with padding.
std::uint64_t width_bytes(std::uint64_t count);

std::uint64_t raw_bytes(std::uint64_t count);
std::uint64_t bitmap_bytes(std::uint64_t range_size);

/// Bytes of widths and packed groups, with padding.
std::uint64_t gap_bytes(std::uint64_t count, View<const std::uint8_t> widths);

/// Calls body(first entry, entries, width, byte offset behind the widths) for each run of groups of equal width. A run
/// is packed like one long view, so one call packs it and several threads are worth their cost.
template <class Body>
void for_each_run(std::uint64_t count, View<const std::uint8_t> widths, Body&& body);

/// The smallest coding and its bytes. If codings are equally small, the first of raw, gaps, bitmap is chosen.
struct ChosenCoding {
  IndexCoding coding;
  std::uint64_t bytes;
};
ChosenCoding choose_coding(std::uint64_t count, std::uint64_t range_size, View<const std::uint8_t> widths);

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
