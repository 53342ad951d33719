#include "kernels/dropout/dropout.h"

#include "base/check.h"
#include "base/for_draws.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "kernels/cuda.h"
#include "kernels/dropout/twins.h"

namespace laconic {

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
    const View<float> masked = mask.sub(row * width, width);
    for_draws(own, width, [&](std::size_t i, std::uint32_t draw) {
      masked[i] = draw < values.dropped ? 0.0F : values.kept;
    });
  });
}

}  // namespace laconic
