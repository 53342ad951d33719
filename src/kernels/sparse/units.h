#pragma once

// Codings of ascending indices, a block of threads a unit: a group of kGapGroup gaps, or kBitmapUnit bits of a bitmap.
// To decode, the blocks measure their units, the measures are summed up (sum_units), and the blocks fill in indices.

#include "base/cuda/first_from.h"
#include "base/cuda/scan.h"
#include "kernels/sparse/indices.h"
#include "kernels/sparse/twins.h"

#ifdef __CUDACC__
namespace laconic::cuda {

static_assert(kGapGroup == 2 * kThreads, "a thread has two gaps");
static_assert(kBitmapUnit == 32 * kThreads, "a thread has one word");

/// A bit behind the end of a bitmap's range counts as this many, which is more than any list has.
inline constexpr std::uint64_t kTooMany = std::uint64_t{1} << 40;

/// Whether indices[i] is above the one before and lies in the range.
inline __device__ bool sound_index(const std::uint32_t* indices, std::uint64_t i, std::uint64_t first,
                                   std::uint64_t size) {
  const std::uint32_t index = indices[i];
  const bool ascends = i == 0 ? index >= first : index > indices[i - 1];
  return ascends && index - first < size;
}

/// The gap before indices[i]. Before the first index stands first - 1, which wraps for 0 and comes back.
inline __device__ std::uint32_t gap_before(const std::uint32_t* indices, std::uint64_t i, std::uint64_t first) {
  const std::uint32_t previous = i == 0 ? static_cast<std::uint32_t>(first) - 1 : indices[i - 1];
  return indices[i] - previous - 1;
}

/// How far the indices move on over a group of n gaps. All threads of the block call it.
template <class Gap>
__device__ std::uint64_t measured_gaps(const Gap& gap, unsigned n) {
  std::uint64_t mine = 0;
  for (unsigned i = threadIdx.x; i < n; i += kThreads) mine += std::uint64_t{gap(i)} + 1;
  return sums_of_block<kThreads>(mine).all;
}

/// Calls store(i, index) for a group of n gaps; `next` is the lowest index that its first entry may have.
template <class Gap, class Store>
__device__ void indices_of_group(const Gap& gap, unsigned n, std::uint64_t next, const Store& store) {
  const unsigned i = 2 * threadIdx.x;
  const std::uint64_t one = i < n ? std::uint64_t{gap(i)} + 1 : 0;
  const std::uint64_t two = i + 1 < n ? std::uint64_t{gap(i + 1)} + 1 : 0;
  next += sums_of_block<kThreads>(one + two).before;
  if (i < n) store(i, static_cast<std::uint32_t>(next + one - 1));
  if (i + 1 < n) store(i + 1, static_cast<std::uint32_t>(next + one + two - 1));
}

/// Writes one unit of the bitmap of ascending indices. Indices outside the bitmap are ignored.
inline __device__ void bitmap_of_unit(const std::uint32_t* indices, std::uint64_t n, std::uint64_t first,
                                      std::uint32_t* words, std::uint64_t word_count, std::uint64_t unit) {
  __shared__ std::uint32_t bits[kThreads];
  const std::uint64_t begin = first + unit * kBitmapUnit;
  const std::uint64_t end = begin + kBitmapUnit;
  bits[threadIdx.x] = 0;
  __syncthreads();
  const std::uint64_t low = first_from(indices, std::uint64_t{0}, n, begin);
  for (std::uint64_t i = low + threadIdx.x; i < n && indices[i] < end; i += kThreads) {
    if (indices[i] < begin) continue;  // only where the indices do not ascend
    const auto position = static_cast<unsigned>(indices[i] - begin);
    atomicOr(&bits[position / 32], 1U << position % 32);
  }
  __syncthreads();
  const std::uint64_t word = unit * kThreads + threadIdx.x;
  if (word < word_count) words[word] = bits[threadIdx.x];
}

/// The set bits of one unit of a bitmap of `size` bits. All threads of the block call it.
inline __device__ std::uint64_t measured_bitmap(const std::uint32_t* words, std::uint64_t size, std::uint64_t unit) {
  const std::uint64_t word = unit * kThreads + threadIdx.x;
  std::uint64_t mine = word * 32 < size ? static_cast<std::uint64_t>(__popc(words[word])) : 0;
  const bool is_last = word == size / 32 && size % 32 != 0;
  if (is_last && words[word] >> size % 32 != 0) mine += kTooMany;
  return sums_of_block<kThreads>(mine).all;
}

/// Calls store(position in the list, index) for the bits of one unit; `before` bits are set in the units before.
template <class Store>
__device__ void indices_of_bitmap_unit(const std::uint32_t* words, std::uint64_t size, std::uint64_t first,
                                       std::uint64_t unit, std::uint64_t before, const Store& store) {
  const std::uint64_t word = unit * kThreads + threadIdx.x;
  std::uint32_t bits = word * 32 < size ? words[word] : 0;
  before += sums_of_block<kThreads>(static_cast<std::uint64_t>(__popc(bits))).before;
  for (; bits != 0; bits &= bits - 1) {
    const auto bit = static_cast<std::uint64_t>(__ffs(static_cast<int>(bits)) - 1);
    store(before++, static_cast<std::uint32_t>(first + word * 32 + bit));
  }
}

}  // namespace laconic::cuda
#endif
