#pragma once

// Histograms of a block.

#include "base/cuda/scan.h"

#ifdef __CUDACC__
namespace laconic::cuda::search {

/// A thread's additions to a histogram in shared memory. Those to one bin that follow each other are one: many equal
/// keys would otherwise wait for each other.
class Counter {
 public:
  explicit __device__ Counter(std::uint32_t* bins) : bins_(bins) {}

  __device__ void add(std::uint32_t bin) {
    if (bin != bin_) flush();
    bin_ = bin;
    ++count_;
  }
  __device__ void flush() {
    if (count_ > 0) atomicAdd(bins_ + bin_, count_);
    count_ = 0;
  }

 private:
  std::uint32_t* bins_;
  std::uint32_t bin_ = 0;
  std::uint32_t count_ = 0;
};

/// A bin and how many entries are in those above it.
struct Bin {
  std::uint32_t index;
  std::uint32_t above;
  bool found;  ///< false if there are fewer than `rank` entries
};

/// The bin of the entry of that rank >= 1, counted from the highest bin; at(i) is how many are in bin i. All threads of
/// the block call it.
template <unsigned kBlockThreads, unsigned kBinCount, class At>
__device__ Bin find_bin(std::uint32_t rank, At at) {
  constexpr unsigned kEach = kBinCount / kBlockThreads;
  __shared__ Bin result;
  const unsigned top = kBinCount - 1 - threadIdx.x * kEach;
  std::uint32_t counts[kEach];
  std::uint32_t mine = 0;
#pragma unroll
  for (unsigned i = 0; i < kEach; ++i) {
    counts[i] = at(top - i);
    mine += counts[i];
  }
  const SumsOfBlock<std::uint32_t> sums = sums_of_block<kBlockThreads>(mine);
  if (threadIdx.x == 0) result.found = sums.all >= rank;
  if (sums.before < rank && rank - sums.before <= mine) {
    std::uint32_t above = sums.before;
    bool searching = true;
#pragma unroll
    for (unsigned i = 0; i < kEach; ++i) {
      if (searching && rank - above <= counts[i]) {
        result.index = top - i;
        result.above = above;
        searching = false;
      }
      above += counts[i];
    }
  }
  __syncthreads();
  const Bin found = result;
  __syncthreads();  // the next call writes the same memory
  return found;
}

}  // namespace laconic::cuda::search
#endif
