#pragma once

// What encoding and decoding a sparse payload on a device share. Which coding a payload has, and so where its parts lie,
// depends on the data: one block of threads makes a plan, and the kernels after it follow the plan. The CPU learns it
// when it reads the status, or with the one wait of a decoder.

#include "base/cuda/launch.h"
#include "codecs/sparse_layout.h"
#include "codecs/sparse_twins.h"
#include "kernels/sparse/units.h"

#ifdef __CUDACC__
namespace laconic::cuda {

using sparse::gap_groups;
using sparse::IndexCoding;
using sparse::IndexRange;
using sparse::kFirstOffset;
using sparse::kIndicesOffset;
using sparse::ValueSection;
using sparse::width_bytes;

inline constexpr std::uint64_t kBytesAUnit = kPackGroup / 8;  ///< bytes that one bit of width takes in a full group
inline constexpr unsigned kNoCoding = 3;  ///< of lists that do not ascend, so that receivers refuse them; of refused ones

struct Plan {
  std::uint64_t index_bytes;
  unsigned coding;
};

struct WidthSums {
  std::uint64_t bits;         ///< of all groups
  std::uint64_t wrong_group;  ///< the first whose width is impossible, or kNoGroup; it counts as 0
};

/// One block: fills `before`. Widths may come from anywhere.
inline __device__ WidthSums sum_widths(const std::uint8_t* widths, std::uint64_t count, std::uint32_t* before) {
  __shared__ unsigned long long wrong_group;
  if (threadIdx.x == 0) wrong_group = kNoGroup;
  __syncthreads();
  const std::uint64_t groups = gap_groups(count);
  std::uint64_t done = 0;
  for (std::uint64_t begin = 0; begin < groups; begin += kThreads) {
    const std::uint64_t group = begin + threadIdx.x;
    std::uint32_t width = group < groups ? widths[group] : 0;
    if (width > sparse::kMostWidth) {
      atomicMin(&wrong_group, static_cast<unsigned long long>(group));
      width = 0;
    }
    const auto sums = sums_of_block<kThreads>(width);
    if (group < groups) before[group] = static_cast<std::uint32_t>(done) + sums.before;
    done += sums.all;
  }
  __syncthreads();
  const std::uint64_t missing = groups * kPackGroup - count;  // fields that the last group lacks
  const std::uint64_t last = missing == 0 || widths[groups - 1] > sparse::kMostWidth ? 0 : widths[groups - 1];
  return {done * kPackGroup - missing * last, wrong_group};
}

}  // namespace laconic::cuda
#endif
