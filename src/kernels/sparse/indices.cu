#include "base/workspace.h"
#include "kernels/sparse/twins.h"
#include "kernels/sparse/units.h"

// Twins of kernels/sparse/indices.

namespace laconic::cuda {
namespace {

/// One group per block: gaps (if wanted), their width, and the first entry that is not sound.
__global__ void group_gaps_kernel(const std::uint32_t* indices, std::uint64_t n, std::uint64_t first,
                                  std::uint64_t size, std::uint32_t* gaps, std::uint8_t* widths,
                                  std::uint64_t* unsound) {
  __shared__ std::uint32_t bits;
  __shared__ unsigned wrong;  // in the group
  if (threadIdx.x == 0) {
    bits = 0;
    wrong = kGapGroup;
  }
  __syncthreads();
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * kGapGroup;
  std::uint32_t mine = 0;
  for (unsigned at = threadIdx.x; at < kGapGroup && begin + at < n; at += kThreads) {
    const std::uint32_t gap = gap_before(indices, begin + at, first);
    if (gaps != nullptr) gaps[begin + at] = gap;
    mine |= gap;
    if (!sound_index(indices, begin + at, first, size)) atomicMin(&wrong, at);
  }
  mine = __reduce_or_sync(kAllThreadsOfWarp, mine);
  if (lane() == 0) atomicOr(&bits, mine);
  __syncthreads();
  if (threadIdx.x != 0) return;
  widths[blockIdx.x] = static_cast<std::uint8_t>(32 - __clz(static_cast<int>(bits)));
  unsound[blockIdx.x] = wrong == kGapGroup ? n : begin + wrong;
}

/// One block. least[0] becomes the smallest of n > 0 numbers.
__global__ void least_kernel(std::uint64_t* least, std::uint64_t n) {
  __shared__ unsigned long long smallest;
  if (threadIdx.x == 0) smallest = ~0ULL;
  __syncthreads();
  for (std::uint64_t i = threadIdx.x; i < n; i += kThreads) {
    atomicMin(&smallest, static_cast<unsigned long long>(least[i]));
  }
  __syncthreads();
  if (threadIdx.x == 0) least[0] = smallest;
}

/// One block. Each measure becomes the sum of those before it; the sum of all follows them.
__global__ void sum_units_kernel(std::uint64_t* measures, std::uint64_t n) {
  std::uint64_t done = 0;
  for (std::uint64_t begin = 0; begin < n; begin += kThreads) {
    const std::uint64_t at = begin + threadIdx.x;
    const auto sums = sums_of_block<kThreads>(at < n ? measures[at] : std::uint64_t{0});
    if (at < n) measures[at] = done + sums.before;
    done += sums.all;
  }
  if (threadIdx.x == 0) measures[n] = done;
}

__global__ void measure_gaps_kernel(const std::uint32_t* gaps, std::uint64_t n, std::uint64_t* measures) {
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * kGapGroup;
  const auto count = static_cast<unsigned>(n - begin < kGapGroup ? n - begin : kGapGroup);
  const std::uint64_t measure = measured_gaps([=](unsigned i) { return gaps[begin + i]; }, count);
  if (threadIdx.x == 0) measures[blockIdx.x] = measure;
}

__global__ void indices_of_gaps_kernel(std::uint64_t first, std::uint64_t size, std::uint32_t* gaps, std::uint64_t n,
                                       const std::uint64_t* measures) {
  if (measures[gridDim.x] > size) return;
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * kGapGroup;
  const auto count = static_cast<unsigned>(n - begin < kGapGroup ? n - begin : kGapGroup);
  indices_of_group([=](unsigned i) { return gaps[begin + i]; }, count, first + measures[blockIdx.x],
                   [=](unsigned i, std::uint32_t index) { gaps[begin + i] = index; });
}

__global__ void from_first_kernel(const std::uint32_t* indices, std::uint32_t first, std::uint32_t* out,
                                  std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) { out[i] = indices[i] - first; });
}

__global__ void of_relative_kernel(const std::uint32_t* relative, std::uint64_t size, std::uint32_t first,
                                   std::uint32_t* indices, std::uint64_t n, std::uint32_t* unsound) {
  for_each_entry(n, [=](std::uint64_t i) {
    if (!sound_index(relative, i, 0, size)) *unsound = 1;
    indices[i] = relative[i] + first;
  });
}

__global__ void bitmap_kernel(const std::uint32_t* indices, std::uint64_t n, std::uint64_t first, std::uint32_t* words,
                              std::uint64_t word_count) {
  bitmap_of_unit(indices, n, first, words, word_count, blockIdx.x);
}

__global__ void measure_bitmap_kernel(const std::uint32_t* words, std::uint64_t size, std::uint64_t* measures) {
  const std::uint64_t measure = measured_bitmap(words, size, blockIdx.x);
  if (threadIdx.x == 0) measures[blockIdx.x] = measure;
}

__global__ void indices_of_bitmap_kernel(const std::uint32_t* words, std::uint64_t size, std::uint64_t first,
                                         const std::uint64_t* measures, std::uint32_t* indices, std::uint64_t n) {
  if (measures[gridDim.x] != n) return;
  indices_of_bitmap_unit(words, size, first, blockIdx.x, measures[blockIdx.x],
                         [=](std::uint64_t i, std::uint32_t index) { indices[i] = index; });
}

}  // namespace

void group_gaps(Place& place, View<const std::uint32_t> indices, std::uint64_t first, std::uint64_t size,
                View<std::uint32_t> gaps, View<std::uint8_t> widths, View<std::uint64_t> unsound) {
  if (indices.empty()) return;
  const Launch launch(place, "gaps_of_indices");
  group_gaps_kernel<<<static_cast<unsigned>(widths.size()), kThreads, 0, launch.stream()>>>(
      indices.data(), indices.size(), first, size, gaps.data(), widths.data(), unsound.data());
  launch.check();
}

void gaps_of_indices(Place& place, View<const std::uint32_t> indices, std::uint64_t first, std::uint64_t size,
                     View<std::uint32_t> gaps, View<std::uint8_t> widths, View<std::uint64_t> unsound) {
  group_gaps(place, indices, first, size, gaps, widths, unsound);
  const Launch launch(place, "gaps_of_indices");
  least_kernel<<<1, kThreads, 0, launch.stream()>>>(unsound.data(), unsound.size());
  launch.check();
}

void sum_units(Place& place, View<std::uint64_t> measures) {
  const Launch launch(place, "sum_units");
  sum_units_kernel<<<1, kThreads, 0, launch.stream()>>>(measures.data(), measures.size() - 1);
  launch.check();
}

void indices_of_gaps(Place& place, std::uint64_t first, std::uint64_t size, View<std::uint32_t> gaps,
                     View<std::uint64_t> measures) {
  const Launch launch(place, "indices_of_gaps");
  const auto groups = static_cast<unsigned>(measures.size() - 1);
  measure_gaps_kernel<<<groups, kThreads, 0, launch.stream()>>>(gaps.data(), gaps.size(), measures.data());
  launch.check();
  sum_units(place, measures);
  indices_of_gaps_kernel<<<groups, kThreads, 0, launch.stream()>>>(first, size, gaps.data(), gaps.size(),
                                                                   measures.data());
  launch.check();
}

void indices_from_first(Place& place, View<const std::uint32_t> indices, std::uint64_t first, View<std::uint32_t> out) {
  launch_over(place, "indices_from_first", out.size(), from_first_kernel, indices.data(),
              static_cast<std::uint32_t>(first), out.data(), out.size());
}

void indices_of_relative(Place& place, View<const std::uint32_t> relative, std::uint64_t first, std::uint64_t size,
                         View<std::uint32_t> indices, View<std::uint32_t> unsound) {
  const Launch launch(place, "indices_of_relative");
  check(cudaMemsetAsync(unsound.data(), 0, unsound.size_bytes(), launch.stream()), "indices_of_relative");
  launch_over(place, "indices_of_relative", indices.size(), of_relative_kernel, relative.data(), size,
              static_cast<std::uint32_t>(first), indices.data(), indices.size(), unsound.data());
}

void bitmap_of_indices(Place& place, View<const std::uint32_t> indices, std::uint64_t first,
                       View<std::uint32_t> words) {
  if (words.empty()) return;
  const Launch launch(place, "bitmap_of_indices");
  const auto units = static_cast<unsigned>((words.size() + kThreads - 1) / kThreads);
  bitmap_kernel<<<units, kThreads, 0, launch.stream()>>>(indices.data(), indices.size(), first, words.data(),
                                                         words.size());
  launch.check();
}

void indices_of_bitmap(Place& place, View<const std::uint32_t> words, std::uint64_t first, std::uint64_t size,
                       View<std::uint32_t> indices, View<std::uint64_t> measures) {
  const Launch launch(place, "indices_of_bitmap");
  const auto units = static_cast<unsigned>(measures.size() - 1);
  measure_bitmap_kernel<<<units, kThreads, 0, launch.stream()>>>(words.data(), size, measures.data());
  launch.check();
  sum_units(place, measures);
  indices_of_bitmap_kernel<<<units, kThreads, 0, launch.stream()>>>(words.data(), size, first, measures.data(),
                                                                    indices.data(), indices.size());
  launch.check();
}

}  // namespace laconic::cuda
