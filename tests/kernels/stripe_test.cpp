#include "kernels/stripe/stripe.h"

#include <gtest/gtest.h>

#include "laconic/error.h"
#include "support/places.h"
#include "support/support.h"

namespace laconic {
namespace {

TEST(StripeKernel, TakesAndPutsEveryStripe) {
  test::for_each_thread_count([](Place& place) {
    for (const std::size_t n : {1, 2, 5, 1000, 70'001}) {
      const std::vector<float> values = test::normal_values(n, n);
      for (const std::uint64_t stride : {1, 2, 3, 8, 1024}) {
        std::vector<float> sum(n, 0.0F);
        for (std::uint64_t first = 0; first < stride; ++first) {
          const Stripe stripe{first, stride};
          std::vector<float> taken(stripe.longest_of(n), -1.0F);
          take_stripe(place, values, stripe, taken);
          std::vector<float> put(n, -1.0F);
          put_stripe(place, taken, 2.0F, stripe, put);
          for (std::size_t i = 0; i < n; ++i) {
            ASSERT_EQ(put[i], i % stride == first ? 2.0F * values[i] : 0.0F) << n << " " << stride << " " << first;
          }
          if (first + (taken.size() - 1) * stride >= n) {
            ASSERT_EQ(taken.back(), 0.0F);
          }
          if (n > 1000 && first > 2) break;
        }
      }
    }
  });
}

TEST(StripeKernel, RefusesOtherSizes) {
  Place place({.threads = 1});
  std::vector<float> values(10), stripe(3);
  EXPECT_THROW(take_stripe(place, values, {0, 4}, View<float>(stripe).sub(0, 2)), InvalidConfig);
  EXPECT_NO_THROW(take_stripe(place, values, {3, 4}, stripe));
}

}  // namespace
}  // namespace laconic
