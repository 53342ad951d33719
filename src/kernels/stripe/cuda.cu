#include "base/cuda/launch.h"
#include "kernels/stripe/twins.h"

namespace laconic::cuda {
namespace {

__global__ void take_stripe_kernel(const float* from, std::uint64_t size, Stripe stripe, float* out, std::uint64_t n) {
  load_then_store(
      n,
      [=](std::uint64_t j) {
        const std::uint64_t i = stripe.first + j * stripe.stride;
        return i < size ? from[i] : 0.0F;
      },
      [=](std::uint64_t j, float value) { out[j] = value; });
}

/// A thread per entry of the whole view, so that neighbouring threads write neighbouring entries.
__global__ void put_stripe_kernel(const float* values, float factor, Stripe stripe, float* to, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) {
    const std::uint64_t j = i / stripe.stride;
    to[i] = i - j * stripe.stride == stripe.first ? factor * values[j] : 0.0F;
  });
}

}  // namespace

void take_stripe(Place& place, View<const float> from, const Stripe& stripe, View<float> out) {
  launch_over(place, "take_stripe", out.size(), take_stripe_kernel, from.data(), from.size(), stripe, out.data(),
              out.size());
}

void put_stripe(Place& place, View<const float> values, float factor, const Stripe& stripe, View<float> to) {
  launch_over(place, "put_stripe", to.size(), put_stripe_kernel, values.data(), factor, stripe, to.data(), to.size());
}

}  // namespace laconic::cuda
