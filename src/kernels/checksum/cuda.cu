#include "base/cuda/launch.h"
#include "base/cuda/words.h"
#include "base/workspace.h"
#include "kernels/checksum/checksum.h"
#include "kernels/checksum/loops.h"

// Twin of kernels/checksum. All threads of a block fetch a part of one of the checksum's blocks into shared memory;
// then sixteen of them follow the lanes, whose steps depend on each other.

namespace laconic::cuda {
namespace {

constexpr unsigned kTileBytes = 32'768;
constexpr unsigned kWordBytes = sizeof(std::uint32_t);
constexpr unsigned kFoldTile = 1024;

/// `count` bytes and the zeros that fill up their last stripe, as words. Word i is written by thread i % kThreads.
template <bool kAligned>
__device__ void fetch_tile(const std::byte* from, unsigned count, std::uint32_t* tile) {
  const unsigned whole = count / kWordBytes;
  const unsigned filled = (count + kStripeBytes - 1) / kStripeBytes * kChecksumLanes;
#pragma unroll 8
  for (unsigned word = threadIdx.x; word < whole; word += kThreads) {
    tile[word] = kAligned ? reinterpret_cast<const std::uint32_t*>(from)[word] : load_word(from + word * kWordBytes);
  }
  for (unsigned word = whole + (threadIdx.x - whole) % kThreads; word < filled; word += kThreads) {
    tile[word] = word == whole ? load_bytes(from + word * kWordBytes, count % kWordBytes) : 0U;
  }
}

/// How many bytes are summed: as many as the 64-bit number at `length` says, but not more than there are.
__device__ std::uint64_t covered(const std::byte* length, std::uint64_t most) {
  if (length == nullptr) return most;
  const std::uint64_t said = load_word(length) | std::uint64_t{load_word(length + kWordBytes)} << 32;
  return said < most ? said : most;
}

template <bool kAligned>
__global__ void block_checksums_kernel(const std::byte* bytes, std::uint64_t most, const std::byte* length,
                                       unsigned hole, std::uint32_t* hashes) {
  __shared__ std::uint32_t tile[kTileBytes / kWordBytes];
  const std::uint64_t n = covered(length, most);
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * kChecksumBlock;
  if (begin >= n) return;
  const auto size = static_cast<unsigned>(n - begin < kChecksumBlock ? n - begin : kChecksumBlock);
  const unsigned lane = threadIdx.x;  // of those below kChecksumLanes
  std::uint32_t state = lane + 1;
  for (unsigned at = 0; at < size; at += kTileBytes) {
    const unsigned count = size - at < kTileBytes ? size - at : kTileBytes;
    fetch_tile<kAligned>(bytes + begin + at, count, tile);
    const bool may_have_hole = begin == 0 && at == 0 && hole != kNoHole;
    if (may_have_hole && threadIdx.x == hole / kWordBytes) tile[threadIdx.x] = 0;  // the thread that wrote it
    __syncthreads();
    if (lane < kChecksumLanes) {
      const unsigned stripes = (count + kStripeBytes - 1) / kStripeBytes;
#pragma unroll 8
      for (unsigned stripe = 0; stripe < stripes; ++stripe) {
        state = std::rotl(state ^ tile[stripe * kChecksumLanes + lane], kLaneRotation) * kLaneMultiplier;
      }
    }
    __syncthreads();
  }
  if (lane < kChecksumLanes) tile[lane] = state;
  __syncthreads();
  if (lane != 0) return;
  std::uint32_t hash = size;
  for (unsigned each = 0; each < kChecksumLanes; ++each) hash = folded(hash, tile[each]);
  hashes[blockIdx.x] = hash;
}

__global__ void fold_kernel(const std::uint32_t* hashes, std::uint64_t most, const std::byte* length,
                            std::uint32_t* result) {
  __shared__ std::uint32_t tile[kFoldTile];
  const std::uint64_t n = covered(length, most);
  const std::uint64_t blocks = (n + kChecksumBlock - 1) / kChecksumBlock;
  auto hash = static_cast<std::uint32_t>(n);
  for (std::uint64_t begin = 0; begin < blocks; begin += kFoldTile) {
    const auto count = static_cast<unsigned>(blocks - begin < kFoldTile ? blocks - begin : kFoldTile);
    for (unsigned i = threadIdx.x; i < count; i += kThreads) tile[i] = hashes[begin + i];
    __syncthreads();
    if (threadIdx.x == 0) {
      for (unsigned i = 0; i < count; ++i) hash = folded(hash, tile[i]);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *result = hash;
}

}  // namespace

void checksum(Place& place, View<const std::byte> bytes, const std::byte* length, std::size_t hole,
              View<std::uint32_t> result) {
  const Workspace::Scope scope(place.workspace());
  const Launch launch(place, "checksum");
  const std::uint64_t blocks = (bytes.size() + kChecksumBlock - 1) / kChecksumBlock;
  const View<std::uint32_t> hashes = place.workspace().take<std::uint32_t>(blocks);
  if (blocks > 0) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % kWordBytes == 0;
    const auto kernel = aligned ? block_checksums_kernel<true> : block_checksums_kernel<false>;
    kernel<<<static_cast<unsigned>(blocks), kThreads, 0, launch.stream()>>>(
        bytes.data(), bytes.size(), length, static_cast<unsigned>(hole), hashes.data());
    launch.check();
  }
  fold_kernel<<<1, kThreads, 0, launch.stream()>>>(hashes.data(), bytes.size(), length, result.data());
  launch.check();
}

}  // namespace laconic::cuda
