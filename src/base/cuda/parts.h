#pragma once

// One launch for many pieces of work of different sizes, as a model has tensors: each block of threads belongs to one
// piece. The pieces are parameters of the kernel, so that nothing is copied and nothing waits; very many are several
// launches.

#include "base/cuda/launch.h"
#include "base/each.h"

#ifdef __CUDACC__
namespace laconic::cuda {

/// Every device takes 4,096 bytes of parameters. The parts leave some for others, and for a list (list.h).
inline constexpr std::size_t kPartsBytes = 2'880;

template <class T>
inline constexpr unsigned kMostParts = kPartsBytes / (sizeof(T) + sizeof(unsigned));

/// With kMost = 1 nothing is searched for.
template <class T, unsigned kMost = kMostParts<T>>
struct Parts {
  T items[kMost];
  unsigned first_block[kMost];
  unsigned count;

  /// Gives each part count_of(its item) blocks. Returns the number of all.
  template <class CountOf>
  unsigned number_blocks(CountOf count_of) {
    unsigned blocks = 0;
    for (unsigned part = 0; part < count; ++part) {
      first_block[part] = blocks;
      blocks += count_of(items[part]);
    }
    return blocks;
  }

  /// The part that this block belongs to.
  __device__ unsigned of_block() const {
    if constexpr (kMost == 1) return 0;
    unsigned low = 0;
    for (unsigned high = count; high - low > 1;) {
      const unsigned middle = (low + high) / 2;
      if (first_block[middle] <= blockIdx.x) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
  /// The number of this block among those of its part.
  __device__ unsigned block_in(unsigned part) const {
    return kMost == 1 ? blockIdx.x : blockIdx.x - first_block[part];
  }
  __device__ unsigned blocks_in(unsigned part) const {
    if (kMost == 1) return gridDim.x;
    return (part + 1 < count ? first_block[part + 1] : gridDim.x) - first_block[part];
  }
};

/// Gathers parts and calls give(parts, number of blocks) whenever there is no room for more.
template <class T, class Give, unsigned kMost = kMostParts<T>>
class PartBatches {
 public:
  explicit PartBatches(Give give) : give_(give) {}

  /// A part without blocks is left out.
  void add(const T& item, std::uint64_t blocks) {
    if (blocks == 0) return;
    if (parts_.count == kMost || blocks_ + blocks > kMostBlocks) finish();
    parts_.items[parts_.count] = item;
    parts_.first_block[parts_.count++] = static_cast<unsigned>(blocks_);
    blocks_ += blocks;
  }
  void finish() {
    if (parts_.count == 0) return;
    give_(parts_, static_cast<unsigned>(blocks_));
    parts_.count = 0;
    blocks_ = 0;
  }

 private:
  static constexpr std::uint64_t kMostBlocks = 0x7FFF'FFFF;

  Give give_;
  Parts<T, kMost> parts_{};
  std::uint64_t blocks_ = 0;
};

}  // namespace laconic::cuda
#endif
