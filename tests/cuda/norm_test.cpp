// The twins of kernels/norm against the reference: the bits of sums show the order that they were made in.

#include "cuda/fixture.h"
#include "kernels/norm/norm.h"

namespace laconic::test {
namespace {

/// Around the sixteen sums of a block, a block of entries, and the blocks that one block of threads takes.
const std::vector<std::size_t> kNormSizes{0,
                                          1,
                                          15,
                                          16,
                                          17,
                                          31,
                                          33,
                                          997,
                                          kNormBlock - 1,
                                          kNormBlock,
                                          kNormBlock + 1,
                                          2 * kNormBlock + 17,
                                          16 * kNormBlock,
                                          17 * kNormBlock - 3,
                                          1'000'003};

class CudaNorm : public Cuda {
 protected:
  void expect_norm(const std::vector<float>& values, Norm kind, std::size_t shift) {
    float expected = -1.0F;
    Status status;
    norm(reference_, values, kind, {&expected, 1}, view_of(status));
    const DeviceArray<float> device(values, shift);
    const DeviceArray<float> result(1, shift);
    const DeviceStatus device_status;
    norm(*place_, device.view(), kind, result.view(), device_status.view());
    EXPECT_TRUE(same_bits(result.values(), {expected})) << values.size() << ": " << result.values()[0];
    const Status found = device_status.read();
    EXPECT_EQ(found.nonfinite, status.nonfinite) << values.size();
    EXPECT_EQ(std::memcmp(&found.norm, &status.norm, sizeof(float)), 0) << values.size();
    EXPECT_TRUE(result.intact() && device_status.intact());
  }

  void expect_sum_of_squares(const std::vector<float>& values, std::size_t shift) {
    double expected = -1.0;
    Status status;
    sum_of_squares(reference_, values, {&expected, 1}, view_of(status));
    const DeviceArray<float> device(values, shift);
    const DeviceArray<double> result(1);
    const DeviceStatus device_status;
    sum_of_squares(*place_, device.view(), result.view(), device_status.view());
    EXPECT_TRUE(same_bits(result.values(), {expected})) << values.size() << ": " << result.values()[0];
    EXPECT_EQ(device_status.read().nonfinite, status.nonfinite) << values.size();
    EXPECT_TRUE(result.intact());
  }

  void expect_everything(const std::vector<float>& values, std::size_t shift) {
    expect_norm(values, Norm::l2, shift);
    expect_norm(values, Norm::max, shift);
    expect_sum_of_squares(values, shift);
    const DeviceArray<float> device(values, shift);
    const float mean = mean_magnitude(reference_, values);
    EXPECT_TRUE(same_numbers<float>({mean_magnitude(*place_, device.view())}, {mean})) << values.size();
    const auto other = normal_values(values.size(), 99);
    const DeviceArray<float> device_other(other, shift + 1);
    const double distance = squared_distance(reference_, values, other);
    EXPECT_TRUE(same_numbers<double>({squared_distance(*place_, device.view(), device_other.view())}, {distance}))
        << values.size();
  }
};

TEST_F(CudaNorm, EverySize) {
  for (const std::size_t n : kNormSizes) {
    expect_everything(normal_values(n, n), n % 5);
    expect_everything(awkward_values(n, n + 1), n % 3);
  }
}

TEST_F(CudaNorm, NonfiniteValues) {
  for (const std::size_t n : {100UL, 8'192UL, 30'001UL}) {
    for (const float bad : {kInfinity, -kInfinity, kNotANumber, -kNotANumber}) {
      auto values = normal_values(n, 5);
      values[n / 2] = bad;
      expect_everything(values, 1);
      values[0] = kInfinity;
      expect_everything(values, 0);
    }
  }
}

TEST_F(CudaNorm, ExtremeMagnitudes) {
  for (const float value : {0.0F, -0.0F, 1e-45F, -1e-40F, 1e-30F, 3e38F}) {
    expect_everything(std::vector<float>(20'000, value), 1);  // the last overflows float32, not float64
  }
}

}  // namespace
}  // namespace laconic::test
