#pragma once

#include "base/philox.h"
#include "kernels/sparse/sparse.h"

// The twins, on a place's stream; contracts as in sparse.h, indices.h and draw.h. None waits: what the front door
// answers to the CPU is left in the place's memory.
namespace laconic::cuda {

void scatter_add(Place& place, ConstSparseView entries, View<float> out);
void scatter(Place& place, ConstSparseView entries, GradientView out);
void gather(Place& place, View<const float> from, View<const std::uint32_t> indices, View<float> values);
void find_entries(Place& place, ConstSparseView entries, View<const std::uint32_t> indices, View<float> values);
void indices_in_scopes(Place& place, std::span<const Scope> scopes, View<const std::uint32_t> indices,
                       View<std::uint32_t> within);

void count_below(Place& place, View<const std::uint32_t> indices, std::span<const std::uint64_t> bounds,
                 View<std::uint64_t> counts);
void read_indices(Place& place, View<const std::uint32_t> indices, std::span<const std::uint64_t> positions,
                  View<std::uint64_t> found);
/// `count` receives the number of entries of the sum.
void merge_sum(Place& place, std::span<const ConstSparseView> parts, SparseView sum, View<std::uint64_t> count);

void draw_indices(Place& place, const RandomStream& stream, std::span<const Scope> scopes,
                  View<std::uint32_t> indices);

/// `unsound` has one entry per group and receives its first entry that is not sound, or indices.size(). `gaps` may be
/// empty if only the widths are wanted.
void group_gaps(Place& place, View<const std::uint32_t> indices, std::uint64_t first, std::uint64_t size,
                View<std::uint32_t> gaps, View<std::uint8_t> widths, View<std::uint64_t> unsound);
/// The same, and the first entry of `unsound` becomes the smallest. At least one index.
void gaps_of_indices(Place& place, View<const std::uint32_t> indices, std::uint64_t first, std::uint64_t size,
                     View<std::uint32_t> gaps, View<std::uint8_t> widths, View<std::uint64_t> unsound);
/// Each measure but the last becomes the sum of those before it, and the last the sum of all.
void sum_units(Place& place, View<std::uint64_t> measures);
/// At least one gap. `measures` has one entry more than there are groups; the last receives how far the indices go,
/// which must not exceed `size`.
void indices_of_gaps(Place& place, std::uint64_t first, std::uint64_t size, View<std::uint32_t> gaps,
                     View<std::uint64_t> measures);
void indices_from_first(Place& place, View<const std::uint32_t> indices, std::uint64_t first, View<std::uint32_t> out);
/// `unsound` receives 0, or 1 if an entry is outside or out of order.
void indices_of_relative(Place& place, View<const std::uint32_t> relative, std::uint64_t first, std::uint64_t size,
                         View<std::uint32_t> indices, View<std::uint32_t> unsound);
void bitmap_of_indices(Place& place, View<const std::uint32_t> indices, std::uint64_t first, View<std::uint32_t> words);
/// Bits of a bitmap that a block of threads handles.
inline constexpr std::uint64_t kBitmapUnit = 8192;
/// size > 0. `measures` has one entry more than there are units; the last receives the number of set bits, which must
/// be indices.size().
void indices_of_bitmap(Place& place, View<const std::uint32_t> words, std::uint64_t first, std::uint64_t size,
                       View<std::uint32_t> indices, View<std::uint64_t> measures);

}  // namespace laconic::cuda
