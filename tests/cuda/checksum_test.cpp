// The twin of kernels/checksum against the reference.

#include "base/philox.h"
#include "cuda/fixture.h"
#include "kernels/checksum/checksum.h"
#include "kernels/checksum/loops.h"

namespace laconic::test {
namespace {

std::vector<std::byte> random_bytes(std::size_t n) {
  const RandomStream stream{.seed = 5};
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(draw16(stream, i));
  return bytes;
}

/// Around words, stripes, the half of a block that is fetched at once, a block, and the blocks that are folded at once.
const std::vector<std::size_t> kByteCounts{
    0, 1, 3, 4, 31, 32, 33, 63, 64, 65, 127, 997,
    32'767, 32'768, 32'769, 32'829, 65'535, 65'536, 65'537, 65'600, 98'304, 98'311,
    131'072, 1'000'003, 1030 * kChecksumBlock + 5};

TEST_F(Cuda, Checksums) {
  for (const std::size_t n : kByteCounts) {
    const auto bytes = random_bytes(n);
    const std::uint32_t expected = checksum(reference_, bytes);
    for (const std::size_t shift : {0U, 1U, 2U, 3U}) {
      const DeviceArray<std::byte> device(bytes, shift);
      EXPECT_EQ(checksum(*place_, device.view()), expected) << n << " bytes at " << shift;
      for (std::size_t hole = 0; hole < 64 && hole + 4 <= n; hole += 12) {
        if (left_out()) continue;
        EXPECT_EQ(checksum_with_hole(*place_, device.view(), hole), checksum_with_hole(reference_, bytes, hole))
            << n << " bytes with a hole at " << hole;
      }
      if (n > 2'000'000) break;  // large: once is enough
    }
  }
}

/// A length in the message may say that the message ends within the hole or before it.
TEST_F(Cuda, ChecksumsThatEndBeforeTheirHole) {
  constexpr std::size_t kHole = 28;
  const auto bytes = random_bytes(200);
  auto without_hole = bytes;
  std::fill_n(without_hole.begin() + kHole, sizeof(std::uint32_t), std::byte{0});
  const DeviceArray<std::byte> device(bytes);
  const DeviceArray<std::uint32_t> result(1);
  for (std::uint64_t said = 0; said < 70; ++said) {
    const DeviceArray<std::uint64_t> length(std::vector<std::uint64_t>{said});
    const std::uint32_t expected = checksum(reference_, View<const std::byte>(without_hole).sub(0, said));
    for (int repeat = 0; repeat < 2; ++repeat) {
      cuda::checksum(*place_, device.view(), reinterpret_cast<const std::byte*>(length.view().data()), kHole,
                     result.view());
      EXPECT_EQ(result.values()[0], expected) << said;
      checksum(*place_, device.view().sub(0, 0));  // one launch: the emulation turns the threads in every other one
    }
  }
}

TEST_F(Cuda, ChecksumNoticesAFlippedBit) {
  auto bytes = random_bytes(100'000);
  const DeviceArray<std::byte> before(bytes);
  bytes[77'777] ^= std::byte{16};
  const DeviceArray<std::byte> after(bytes);
  EXPECT_NE(checksum(*place_, after.view()), checksum(*place_, before.view()));
}

}  // namespace
}  // namespace laconic::test
