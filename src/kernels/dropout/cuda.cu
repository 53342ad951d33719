#include "base/cuda/launch.h"
#include "kernels/dropout/twins.h"

// Twin of kernels/dropout. A thread computes one block of the stream, and with it four entries that are 16 apart.

namespace laconic::cuda {
namespace {

__global__ void dropout_kernel(RandomStream stream, const std::uint32_t* samples, DropoutValues values,
                               std::uint64_t width, std::uint64_t blocks_per_row, std::uint64_t blocks, float* mask) {
  const std::uint64_t thread = thread_index();
  if (thread >= blocks) return;
  const std::uint64_t row = thread / blocks_per_row;
  const std::uint64_t index = thread % blocks_per_row;
  stream.rank = samples[row];
  const PhiloxBlock block = stream.block(index);
  const std::uint64_t first = index / 16 * 64 + index % 16;
#pragma unroll
  for (unsigned word = 0; word < 4; ++word) {
    const std::uint64_t i = first + word * 16;
    if (i < width) mask[row * width + i] = block[word] < values.dropped ? 0.0F : values.kept;
  }
}

}  // namespace

void dropout_mask(Place& place, const RandomStream& stream, View<const std::uint32_t> samples, double drop,
                  View<float> mask) {
  const std::uint64_t width = mask.size() / samples.size();
  const std::uint64_t blocks_per_row = (width + 63) / 64 * 16;
  const std::uint64_t blocks = blocks_per_row * samples.size();
  const Launch launch(place, "dropout_mask");
  dropout_kernel<<<blocks_for(blocks, 1), kThreads, 0, launch.stream()>>>(
      stream, samples.data(), DropoutValues(drop), width, blocks_per_row, blocks, mask.data());
  launch.check();
}

}  // namespace laconic::cuda
