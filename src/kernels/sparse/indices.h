#pragma once

#include <cstdint>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

// Ways to write ascending indices of a range [first, first + size), first + size <= 2^32, and to read them back.
// Readers check their input. Positions and words are relative to `first`.

/// Indices are sent in groups of this many gaps, the group size of kernels/bitpack. Each group has its own width.
inline constexpr std::uint64_t kGapGroup = 512;

/// gaps[i] = indices[i] - indices[i - 1] - 1, and gaps[0] = indices[0] - first. widths[g] is the number of bits of the
/// largest gap of group g. Returns the position of the first entry that does not ascend or lies outside the range, or
/// indices.size() if there is none.
std::uint64_t gaps_of_indices(Place& place, View<const std::uint32_t> indices, std::uint64_t first, std::uint64_t size,
                              View<std::uint32_t> gaps, View<std::uint8_t> widths);

/// Converts gaps to indices in place. Returns false, with the view unspecified, if the gaps lead outside the range.
/// Gaps cannot describe descending indices.
bool indices_of_gaps(Place& place, std::uint64_t first, std::uint64_t size, View<std::uint32_t> gaps);

/// out[i] = indices[i] - first, which is what the coding `raw` sends.
void indices_from_first(Place& place, View<const std::uint32_t> indices, std::uint64_t first, View<std::uint32_t> out);

/// The inverse. Returns false, with `indices` unspecified, unless `relative` ascends strictly and stays below `size`.
bool indices_of_relative(Place& place, View<const std::uint32_t> relative, std::uint64_t first, std::uint64_t size,
                         View<std::uint32_t> indices);

/// Bit i mod 32 of word i div 32 is 1 if first + i is among the indices. Writes all words.
void bitmap_of_indices(Place& place, View<const std::uint32_t> indices, std::uint64_t first, View<std::uint32_t> words);

/// The inverse. Returns false, with `indices` unspecified, unless exactly indices.size() bits are set, all below
/// `size`.
bool indices_of_bitmap(Place& place, View<const std::uint32_t> words, std::uint64_t first, std::uint64_t size,
                       View<std::uint32_t> indices);

}  // namespace laconic
