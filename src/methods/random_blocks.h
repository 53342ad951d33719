#pragma once

#include <span>
#include <vector>

#include "kernels/block/block.h"
#include "laconic/method.h"

namespace laconic {

/// The blocks of a step (RBGS, Xu & Huang 2022): one per tensor, or one of the whole model. The start is uniform and
/// the same on all ranks, so no index is sent, and each entry's probability is the fraction of its tensor that the
/// block covers. A draw costs O(tensors) and allocates nothing.
class RandomBlocks {
 public:
  RandomBlocks(double ratio, bool by_tensor) : ratio_(ratio), by_tensor_(by_tensor) {}

  void prepare(std::span<const Tensor> tensors);

  /// Valid until the next draw.
  std::span<const Block> draw(StepKey key);

  double ratio() const { return ratio_; }
  bool by_tensor() const { return by_tensor_; }
  std::span<const Block> blocks() const { return blocks_; }
  /// The number of entries of all blocks together, which is the same in every step.
  std::uint64_t size() const { return blocks_size(blocks_); }

 private:
  double ratio_;
  bool by_tensor_;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> tensors_;  ///< of each block, in registration order
};

}  // namespace laconic
