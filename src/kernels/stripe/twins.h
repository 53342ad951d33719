#pragma once

#include "kernels/stripe/stripe.h"

// The twins, on a place's stream; contracts as in stripe.h.
namespace laconic::cuda {
void take_stripe(Place& place, View<const float> from, const Stripe& stripe, View<float> out);
void put_stripe(Place& place, View<const float> values, float factor, const Stripe& stripe, View<float> to);
}  // namespace laconic::cuda
