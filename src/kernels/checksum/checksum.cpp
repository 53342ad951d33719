#include "kernels/checksum/checksum.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "base/transfer.h"
#include "base/workspace.h"
#include "kernels/checksum/loops.h"
#include "kernels/cuda.h"
#include "kernels/simd.h"

namespace laconic {
namespace {

/// One block; its first and its last stripe go through a copy where the hole or the end of the bytes lies in them.
std::uint32_t block_checksum(SimdLevel level, View<const std::byte> block, std::size_t hole) {
  ChecksumLanes lanes;
  for (std::size_t lane = 0; lane < kChecksumLanes; ++lane) lanes[lane] = static_cast<std::uint32_t>(lane + 1);

  const auto feed_copy = [&](std::size_t offset, std::size_t count, std::size_t hole_in_copy) {
    std::array<std::byte, kStripeBytes + sizeof(std::uint32_t)> stripe{};
    std::memcpy(stripe.data(), block.data() + offset, count);
    std::memset(stripe.data() + hole_in_copy, 0, sizeof(std::uint32_t));
    LACONIC_DISPATCH(level, checksum_stripes, stripe.data(), 1, lanes);
  };

  std::size_t offset = 0;
  if (hole != kNoHole) {
    offset = std::min(block.size(), kStripeBytes);
    feed_copy(0, offset, hole);
  }
  const std::size_t stripes = (block.size() - offset) / kStripeBytes;
  LACONIC_DISPATCH(level, checksum_stripes, block.data() + offset, stripes, lanes);
  offset += stripes * kStripeBytes;
  if (offset < block.size()) feed_copy(offset, block.size() - offset, kNoHole);

  auto hash = static_cast<std::uint32_t>(block.size());
  for (const std::uint32_t lane : lanes) hash = folded(hash, lane);
  return hash;
}

std::uint32_t checksum_of(Place& place, View<const std::byte> bytes, std::size_t hole) {
  require_same_device("bytes", bytes.device(), place.device());
  const Workspace::Scope scope(place.workspace());
  if (place.device() == Device::cuda) {
    const View<std::uint32_t> result = place.workspace().take<std::uint32_t>(1);
    LACONIC_CUDA_CALL(checksum, place, bytes, nullptr, hole, result);
    return read_one<std::uint32_t>(place, result);
  }
  const Touch touch(place);
  const std::size_t blocks = (bytes.size() + kChecksumBlock - 1) / kChecksumBlock;
  const auto hashes = place.workspace().take<std::uint32_t>(blocks);
  parallel_ranges(place.pool(), bytes.size(), kChecksumBlock, [&](Range range) {
    for (std::size_t begin = range.begin; begin < range.end; begin += kChecksumBlock) {
      const auto block = bytes.sub(begin, std::min(kChecksumBlock, range.end - begin));
      hashes[begin / kChecksumBlock] = block_checksum(place.simd(), block, begin == 0 ? hole : kNoHole);
    }
  });
  auto hash = static_cast<std::uint32_t>(bytes.size());
  for (const std::uint32_t each : hashes) hash = folded(hash, each);
  return hash;
}

}  // namespace

std::uint32_t checksum(Place& place, View<const std::byte> bytes) { return checksum_of(place, bytes, kNoHole); }

std::uint32_t checksum_with_hole(Place& place, View<const std::byte> bytes, std::size_t hole) {
  LACONIC_CHECK(hole % sizeof(std::uint32_t) == 0U);
  LACONIC_CHECK(hole < kStripeBytes);
  LACONIC_CHECK(hole + sizeof(std::uint32_t) <= bytes.size());
  return checksum_of(place, bytes, hole);
}

}  // namespace laconic
