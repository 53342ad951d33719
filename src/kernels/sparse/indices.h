#pragma once

#include <cstdint>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

// Ways to write ascending indices of a range [first, first + size), first + size <= 2^32, and to read them back.
// Readers distrust what they are given. Positions and words are relative to `first`.

/// Indices travel in groups of this many gaps, each group with a width of its own; kernels/bitpack's group.
inline constexpr std::uint64_t kGapGroup = 512;

/// gaps[i] = indices[i] - indices[i - 1] - 1, gaps[0] = indices[0] - first; widths[g]: bits of the largest gap of group
/// g. Returns the position of the first entry that does not ascend or lies outside, or indices.size() if there is none.
std::uint64_t gaps_of_indices(Place& place, View<const std::uint32_t> indices, std::uint64_t first, std::uint64_t size,
                              View<std::uint32_t> gaps, View<std::uint8_t> widths);

/// In place, gaps to indices. False, with the view unspecified, if the gaps lead outside the range. Gaps cannot
/// descend.
bool indices_of_gaps(Place& place, std::uint64_t first, std::uint64_t size, View<std::uint32_t> gaps);

/// out[i] = indices[i] - first: what `raw` sends.
void indices_from_first(Place& place, View<const std::uint32_t> indices, std::uint64_t first, View<std::uint32_t> out);

/// The inverse. False, with `indices` unspecified, unless `relative` ascends strictly and stays below `size`.
bool indices_of_relative(Place& place, View<const std::uint32_t> relative, std::uint64_t first, std::uint64_t size,
                         View<std::uint32_t> indices);

/// Bit i mod 32 of word i div 32 is 1 where first + i is among the indices. Writes all words.
void bitmap_of_indices(Place& place, View<const std::uint32_t> indices, std::uint64_t first, View<std::uint32_t> words);

/// The inverse. False, with `indices` unspecified, unless exactly indices.size() bits are set, all below `size`.
bool indices_of_bitmap(Place& place, View<const std::uint32_t> words, std::uint64_t first, std::uint64_t size,
                       View<std::uint32_t> indices);

}  // namespace laconic
