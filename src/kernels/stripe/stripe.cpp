#include "kernels/stripe/stripe.h"

#include <algorithm>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "kernels/cuda.h"
#include "kernels/stripe/twins.h"

namespace laconic {
namespace {

constexpr std::size_t kCut = 16;  ///< ranges begin at whole cache lines

void require_stripe(Place& place, View<const float> whole, const Stripe& stripe, View<const float> values) {
  LACONIC_CHECK(stripe.first < stripe.stride);
  require_same_device("of a stripe", whole.device(), place.device());
  require_same_device("of a stripe", values.device(), place.device());
  require_size("of a stripe", values.size(), stripe.longest_of(whole.size()));
}

}  // namespace

void take_stripe(Place& place, View<const float> from, const Stripe& stripe, View<float> out) {
  require_stripe(place, from, stripe, out);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(take_stripe, place, from, stripe, out);
  const Touch touch(place);
  parallel_ranges(place.pool(), out.size(), kCut, [&](Range range) {
    for (std::size_t j = range.begin; j < range.end; ++j) {
      const std::size_t i = stripe.first + j * stripe.stride;
      out[j] = i < from.size() ? from[i] : 0.0F;
    }
  });
}

void put_stripe(Place& place, View<const float> values, float factor, const Stripe& stripe, View<float> to) {
  require_stripe(place, to, stripe, values);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(put_stripe, place, values, factor, stripe, to);
  const Touch touch(place);
  parallel_ranges(place.pool(), values.size(), kCut, [&](Range range) {
    std::fill(to.data() + range.begin * stripe.stride, to.data() + std::min(range.end * stripe.stride, to.size()), 0.0F);
    for (std::size_t j = range.begin; j < range.end; ++j) {
      const std::size_t i = stripe.first + j * stripe.stride;
      if (i < to.size()) to[i] = factor * values[j];
    }
  });
}

}  // namespace laconic
