#include "kernels/block/block.h"

#include <gtest/gtest.h>

#include <random>

#include "laconic/error.h"
#include "support/places.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::Guarded;
using test::for_each_thread_count;

/// Tensors one after another, each with a block of about one entry in `ratio`, some wrapping round the end.
std::vector<Block> random_blocks(std::span<const std::uint64_t> sizes, std::uint64_t ratio, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<Block> blocks;
  std::uint64_t offset = 0;
  for (const std::uint64_t size : sizes) {
    blocks.push_back({offset, size, engine() % size, std::max<std::uint64_t>(1, size / ratio)});
    offset += size;
  }
  return blocks;
}

/// Where each entry of the concatenation lies, one at a time.
std::vector<std::uint64_t> positions_of(std::span<const Block> blocks) {
  std::vector<std::uint64_t> positions;
  for (const Block& block : blocks) {
    for (std::uint64_t i = 0; i < block.count; ++i) positions.push_back(block.offset + (block.start + i) % block.size);
  }
  return positions;
}

TEST(BlockKernel, GathersAndScattersAnyStretch) {
  const std::vector<std::vector<std::uint64_t>> layouts{
      {1}, {7}, {64, 1, 33}, {1000, 3, 100'003}, std::vector<std::uint64_t>(50, 4099)};
  for (const auto& sizes : layouts) {
    for (const std::uint64_t ratio : {1U, 2U, 64U}) {
      const auto blocks = random_blocks(sizes, ratio, ratio + sizes.size());
      const auto positions = positions_of(blocks);
      std::uint64_t n = 0;
      for (const std::uint64_t size : sizes) n += size;
      ASSERT_EQ(blocks_size(blocks), positions.size());
      const auto flat = test::normal_values(n, 1);
      for_each_thread_count([&](Place& place) {
        const std::uint64_t total = positions.size();
        for (const auto& [begin, count] :
             {std::pair{std::uint64_t{0}, total}, {total / 3, total / 2}, {total, std::uint64_t{0}}}) {
          Guarded<float> out(count, 5);
          gather_blocks(place, flat, blocks, begin, out.view());
          for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(out.view()[i], flat[positions[begin + i]]) << i;
          std::vector<float> expected(n, 9.0F);
          for (std::uint64_t i = 0; i < count; ++i) expected[positions[begin + i]] = out.view()[i];
          Guarded<float> scattered(n, 3, 9.0F);
          scatter_blocks(place, out.view(), blocks, begin, scattered.view());
          EXPECT_EQ(scattered.values(), expected);
          EXPECT_TRUE(out.intact() && scattered.intact());
        }
      });
    }
  }
}

TEST(BlockKernel, RefusesBlocksThatDoNotFit) {
  Place place({.threads = 1});
  std::vector<float> flat(10);
  std::vector<float> out(4);
  const auto gather_one = [&](Block block, std::uint64_t begin) {
    const std::vector<Block> blocks{block};
    gather_blocks(place, flat, blocks, begin, out);
  };
  EXPECT_NO_THROW(gather_one({0, 10, 8, 4}, 0));
  EXPECT_THROW(gather_one({0, 11, 0, 4}, 0), InvalidConfig);                  // beyond the view
  EXPECT_THROW(gather_one({~std::uint64_t{0}, 10, 0, 4}, 0), InvalidConfig);  // offset wraps
  EXPECT_THROW(gather_one({0, 10, 10, 4}, 0), InvalidConfig);                 // start beyond the tensor
  EXPECT_THROW(gather_one({0, 10, 0, 11}, 0), InvalidConfig);                 // longer than the tensor
  const auto text = test::message_of<InvalidConfig>([&] { gather_one({0, 10, 0, 4}, 1); });
  EXPECT_TRUE(test::contains(text, "entries 1..5 of blocks asked for, they have 4")) << text;
}

}  // namespace
}  // namespace laconic
