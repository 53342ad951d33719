// The twins of kernels/stripe against the processor's loops.

#include "cuda/fixture.h"
#include "kernels/stripe/stripe.h"

namespace laconic::test {
namespace {

class CudaStripe : public Cuda {};

TEST_F(CudaStripe, TakesAndPutsTheSame) {
  for (const std::size_t n : kSizes) {
    const std::vector<float> values = awkward_values(n, 1);
    const DeviceArray<float> there(values, 1);
    for (const std::uint64_t stride : {1, 3, 8, 1024}) {
      for (const std::uint64_t first : {std::uint64_t{0}, stride / 2, stride - 1}) {
        const Stripe stripe{first, stride};
        std::vector<float> expected(stripe.longest_of(n), -1.0F), expected_whole(n, -1.0F);
        DeviceArray<float> taken(expected, 2), whole(expected_whole, n % 3);
        take_stripe(reference_, values, stripe, expected);
        take_stripe(*place_, there.view(), stripe, taken.view());
        EXPECT_TRUE(same_numbers(taken.values(), expected)) << n << " " << stride << " " << first;
        put_stripe(reference_, expected, 3.0F, stripe, expected_whole);
        put_stripe(*place_, taken.view(), 3.0F, stripe, whole.view());
        EXPECT_TRUE(same_numbers(whole.values(), expected_whole)) << n << " " << stride << " " << first;
        EXPECT_TRUE(taken.intact() && whole.intact());
      }
    }
  }
}

}  // namespace
}  // namespace laconic::test
