// The twins of kernels/block against the processor's copies.

#include "cuda/fixture.h"
#include "kernels/block/block.h"

namespace laconic::test {
namespace {

/// Tensors of these sizes one behind the other; of each a part is kept that wraps round its end where it can.
std::vector<Block> blocks_of(const std::vector<std::uint64_t>& sizes, std::uint64_t part) {
  std::vector<Block> blocks;
  std::uint64_t offset = 0;
  for (const std::uint64_t size : sizes) {
    const std::uint64_t count = std::max<std::uint64_t>(1, size / part);
    blocks.push_back({.offset = offset, .size = size, .start = size - 1 - size / 5, .count = count});
    offset += size;
  }
  return blocks;
}

class CudaBlock : public Cuda {
 protected:
  void expect_reference(const std::vector<std::uint64_t>& sizes, std::uint64_t part) {
    const auto blocks = blocks_of(sizes, part);
    const std::uint64_t total = blocks_size(blocks);
    const std::uint64_t flat_size = blocks.back().offset + blocks.back().size;
    const auto flat = awkward_values(flat_size, 7, kNotANumber);
    for (const std::uint64_t begin : {std::uint64_t{0}, total / 3, total}) {
      for (const std::uint64_t count : {total - begin, (total - begin) / 2}) {
        const DeviceArray<float> device_flat(flat, 3);
        std::vector<float> out(count);
        const DeviceArray<float> device_out(count, 1);
        gather_blocks(reference_, flat, blocks, begin, out);
        gather_blocks(*place_, device_flat.view(), blocks, begin, device_out.view());
        EXPECT_TRUE(same_bits(device_out.values(), out)) << sizes.size() << " tensors from " << begin;
        EXPECT_TRUE(device_out.intact());

        auto scattered = flat;
        const auto values = normal_values(count, 8);
        const DeviceArray<float> device_values(values, 2);
        scatter_blocks(reference_, values, blocks, begin, scattered);
        scatter_blocks(*place_, device_values.view(), blocks, begin, device_flat.view());
        EXPECT_TRUE(same_bits(device_flat.values(), scattered)) << sizes.size() << " tensors from " << begin;
        EXPECT_TRUE(device_flat.intact());
      }
    }
  }
};

TEST_F(CudaBlock, OneTensor) {
  for (const std::size_t n : kSizes) {
    if (n == 0) continue;
    for (const std::uint64_t part : {1U, 2U, 64U}) expect_reference({n}, part);
  }
}

TEST_F(CudaBlock, AnyNumberOfTensors) {
  for (const std::size_t tensors : {2U, 63U, 64U, 65U, 129U, 200U}) {
    std::vector<std::uint64_t> sizes;
    for (std::size_t i = 0; i < tensors; ++i) sizes.push_back(i % 3 == 0 ? 1 : i % 7 == 0 ? 5003 : 64 + i);
    for (const std::uint64_t part : {1U, 16U}) expect_reference(sizes, part);
  }
}

}  // namespace
}  // namespace laconic::test
