#include "base/cuda/parts.h"
#include "kernels/convert/cuda/numbers.h"
#include "kernels/sign/loops.h"

// Twins of kernels/sign: a ballot of a warp is a word of signs.

namespace laconic::cuda {
namespace {

static_assert(kSignsPerWord == kWarp);

template <class Number>
struct PackPart {
  const Number* values;
  std::uint32_t* words;
  std::uint64_t n;
};

/// Each warp packs 32 words, lane l keeping word l, so that it reads 128 bytes at a time and writes 128 bytes once.
template <class Number>
__global__ void pack_signs_kernel(const __grid_constant__ Parts<PackPart<Number>> parts, Status* status) {
  const unsigned number = parts.of_block();
  const PackPart<Number> part = parts.items[number];
  const unsigned lane = threadIdx.x % kWarp;
  const std::uint64_t first_word = std::uint64_t{parts.block_in(number)} * kThreads + threadIdx.x - lane;
  const Number* mine = part.values + first_word * kWarp + lane;
  const std::uint64_t left = part.n > first_word * kWarp ? part.n - first_word * kWarp : 0;
  std::uint32_t kept = 0;
  bool nonfinite = false;
#pragma unroll
  for (unsigned word = 0; word < kWarp; ++word) {
    const float value = word * kWarp + lane < left ? widened(mine[word * kWarp]) : 0.0F;
    const std::uint32_t signs = __ballot_sync(0xFFFF'FFFFU, value < 0.0F);
    if (lane == word) kept = signs;
    nonfinite |= is_nonfinite(value);
  }
  if (lane * kWarp < left) part.words[first_word + lane] = kept;
  if (nonfinite) status->nonfinite = 1;  // whoever writes writes the same
}

template <class Number>
struct UnpackPart {
  const std::uint32_t* words;
  Number* values;
  std::uint64_t n;
};

template <class Number>
__global__ void unpack_signs_kernel(const __grid_constant__ Parts<UnpackPart<Number>> parts, float magnitude) {
  const unsigned number = parts.of_block();
  const UnpackPart<Number> part = parts.items[number];
  const std::uint64_t first = std::uint64_t{parts.block_in(number)} * kThreads * kEntries + threadIdx.x;
#pragma unroll
  for (unsigned step = 0; step < kEntries; ++step) {
    const std::uint64_t i = first + step * kThreads;
    if (i >= part.n) continue;
    const bool minus = (part.words[i / kWarp] >> i % kWarp & 1U) != 0;
    part.values[i] = narrowed<Number>(minus ? -magnitude : magnitude);
  }
}

}  // namespace

void pack_signs(Place& place, Each<SignsToPack> slices, StatusView status) {
  with_number_of(slices, [&]<class Number>(Number) {
    const Launch launch(place, "pack_signs");
    const auto give = [&](const Parts<PackPart<Number>>& parts, unsigned blocks) {
      pack_signs_kernel<Number><<<blocks, kThreads, 0, launch.stream()>>>(parts, status.data());
      launch.check();
    };
    PartBatches<PackPart<Number>, decltype(give)> batches(give);
    slices([&](const SignsToPack& slice) {
      const auto* values = reinterpret_cast<const Number*>(slice.values.data());
      batches.add({values, slice.words.data(), slice.values.size()}, blocks_for(slice.values.size(), kWarp));
    });
    batches.finish();
  });
}

void unpack_signs(Place& place, Each<SignsToUnpack> slices, float magnitude) {
  with_number_of(slices, [&]<class Number>(Number) {
    const Launch launch(place, "unpack_signs");
    const auto give = [&](const Parts<UnpackPart<Number>>& parts, unsigned blocks) {
      unpack_signs_kernel<Number><<<blocks, kThreads, 0, launch.stream()>>>(parts, magnitude);
      launch.check();
    };
    PartBatches<UnpackPart<Number>, decltype(give)> batches(give);
    slices([&](const SignsToUnpack& slice) {
      auto* values = reinterpret_cast<Number*>(slice.values.data());
      batches.add({slice.words.data(), values, slice.values.size()}, blocks_for(slice.values.size(), kEntries));
    });
    batches.finish();
  });
}

}  // namespace laconic::cuda
