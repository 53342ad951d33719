#include "kernels/dropout/dropout.h"

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "kernels/cuda.h"
#include "kernels/dropout/twins.h"

namespace laconic {
namespace {

/// Each block of the stream is computed once: it holds four draws that are 16 entries apart.
void mask_row(const RandomStream& stream, const DropoutValues& values, View<float> row) {
  for (std::size_t start = 0; start < row.size(); start += 64) {
    for (std::size_t lane = 0; lane < 16 && start + lane < row.size(); ++lane) {
      const PhiloxBlock block = stream.block(start / 4 + lane);
      for (std::size_t word = 0; word < 4; ++word) {
        const std::size_t i = start + word * 16 + lane;
        if (i < row.size()) row[i] = block[word] < values.dropped ? 0.0F : values.kept;
      }
    }
  }
}

}  // namespace

void dropout_mask(Place& place, const RandomStream& stream, View<const std::uint32_t> samples, double drop,
                  View<float> mask) {
  require_same_device("of a mask", mask.device(), place.device());
  require_same_device("of a mask's samples", samples.device(), place.device());
  if (mask.empty()) return;
  LACONIC_CHECK(samples.size() > 0U);
  LACONIC_CHECK(mask.size() % samples.size() == 0U);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(dropout_mask, place, stream, samples, drop, mask);
  const std::size_t width = mask.size() / samples.size();
  const DropoutValues values(drop);
  const Touch touch(place);
  place.pool().run(samples.size(), [&](std::size_t row) {
    RandomStream own = stream;
    own.rank = samples[row];
    mask_row(own, values, mask.sub(row * width, width));
  });
}

}  // namespace laconic
