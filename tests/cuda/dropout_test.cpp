// The twin of kernels/dropout against the processor's loop.

#include "cuda/fixture.h"
#include "kernels/dropout/dropout.h"

namespace laconic::test {
namespace {

class CudaDropout : public Cuda {};

TEST_F(CudaDropout, DrawsTheSameMasks) {
  const RandomStream stream{.seed = 0x1234'5678'9ABC, .step = 3, .tensor = 7, .purpose = Purpose::dropout};
  const std::vector<std::uint32_t> samples{40, 3, (1U << 24) - 1, 40};
  const DeviceArray<std::uint32_t> there(samples);
  for (const std::size_t width : {1, 15, 16, 17, 63, 64, 65, 1000, 4099}) {
    for (const double drop : {0.0, 0.2, 0.5, 0.999}) {
      std::vector<float> expected(width * samples.size(), -1.0F);
      DeviceArray<float> mask(expected, width % 3);
      dropout_mask(reference_, stream, samples, drop, expected);
      dropout_mask(*place_, stream, there.view(), drop, mask.view());
      EXPECT_TRUE(same_numbers(mask.values(), expected)) << width << " " << drop;
      EXPECT_TRUE(mask.intact());
      for (std::size_t i = 0; i < width; ++i) EXPECT_EQ(expected[i], expected[3 * width + i]) << "one sample, two masks";
    }
  }
}

}  // namespace
}  // namespace laconic::test
