#include "base/cuda/launch.h"
#include "kernels/sign/loops.h"
#include "kernels/sign/sign.h"

// Twins of kernels/sign: a ballot of a warp is a word of signs.

namespace laconic::cuda {
namespace {

static_assert(kSignsPerWord == kWarp);

/// Each warp packs 32 words, lane l keeping word l, so that it reads 128 bytes at a time and writes 128 bytes once.
__global__ void pack_signs_kernel(const float* values, std::uint64_t n, std::uint32_t* words, Status* status) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::uint64_t first_word = thread_index() - lane;
  const float* mine = values + first_word * kWarp + lane;
  const std::uint64_t left = n > first_word * kWarp ? n - first_word * kWarp : 0;
  std::uint32_t kept = 0;
  bool nonfinite = false;
#pragma unroll
  for (unsigned word = 0; word < kWarp; ++word) {
    const float value = word * kWarp + lane < left ? mine[word * kWarp] : 0.0F;
    const std::uint32_t signs = __ballot_sync(0xFFFF'FFFFU, value < 0.0F);
    if (lane == word) kept = signs;
    nonfinite |= is_nonfinite(value);
  }
  if (lane * kWarp < left) words[first_word + lane] = kept;
  if (nonfinite) status->nonfinite = 1;  // whoever writes writes the same
}

__global__ void unpack_signs_kernel(const std::uint32_t* words, float magnitude, float* values, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) {
    const bool minus = (words[i / kWarp] >> i % kWarp & 1U) != 0;
    values[i] = minus ? -magnitude : magnitude;
  });
}

}  // namespace

void pack_signs(Place& place, View<const float> values, View<std::uint32_t> words, StatusView status) {
  if (values.empty()) return;
  const Launch launch(place, "pack_signs");
  pack_signs_kernel<<<blocks_for(values.size(), kWarp), kThreads, 0, launch.stream()>>>(values.data(), values.size(),
                                                                                        words.data(), status.data());
  launch.check();
}

void unpack_signs(Place& place, View<const std::uint32_t> words, float magnitude, View<float> values) {
  if (values.empty()) return;
  const Launch launch(place, "unpack_signs");
  unpack_signs_kernel<<<blocks_for(values.size(), kEntries), kThreads, 0, launch.stream()>>>(
      words.data(), magnitude, values.data(), values.size());
  launch.check();
}

}  // namespace laconic::cuda
