#include "methods/random_blocks.h"

#include "base/keep.h"
#include "base/philox.h"

namespace laconic {

void RandomBlocks::prepare(std::span<const Tensor> tensors) {
  blocks_.clear();
  tensors_.clear();
  const auto add = [&](std::uint32_t tensor, std::uint64_t offset, std::uint64_t size) {
    if (size == 0) return;
    blocks_.push_back({.offset = offset, .size = size, .start = 0, .count = block_count(ratio_, size)});
    tensors_.push_back(tensor);
  };
  std::uint64_t offset = 0;
  for (std::uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
    if (by_tensor_) add(tensor, offset, tensors[tensor].size);
    offset += tensors[tensor].size;
  }
  if (!by_tensor_) add(0, 0, offset);
}

std::span<const Block> RandomBlocks::draw(StepKey key) {
  const RandomStream stream{.seed = key.seed, .step = key.step, .purpose = Purpose::block_start};
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].start = draw_below(stream.of_tensor(tensors_[i]), 0, blocks_[i].size);
  }
  return blocks_;
}

}  // namespace laconic
