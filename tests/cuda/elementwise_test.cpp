// The twins of kernels/elementwise that read several parts, against the reference.

#include <limits>

#include "cuda/fixture.h"
#include "kernels/elementwise/elementwise.h"

namespace laconic::test {
namespace {

class CudaSums : public Cuda {
 protected:
  /// Both sums of `count` parts of n entries, each on both places. `into_part`: the last sum goes where the last part
  /// lies.
  void expect_reference(std::size_t n, std::size_t count, float extra, bool into_part) {
    std::vector<std::vector<float>> parts;
    std::vector<std::unique_ptr<DeviceArray<float>>> device_parts;
    std::vector<View<const float>> views;
    std::vector<View<const float>> device_views;
    std::vector<float> weights;
    for (std::size_t i = 0; i < count; ++i) {
      parts.push_back(awkward_values(n, 10 + i, i == count / 2 ? extra : 0.0F));
      weights.push_back(0.7F / static_cast<float>(i + 1));
    }
    for (std::size_t i = 0; i < count; ++i) {
      device_parts.push_back(std::make_unique<DeviceArray<float>>(parts[i], i % 5));
      views.emplace_back(parts[i]);
      device_views.emplace_back(device_parts[i]->view());
    }
    for (const float divisor : {1.0F, 3.0F, 0.0F}) {  // 0 stands for the weighted sum
      Status status;
      const DeviceStatus device_status;
      std::vector<float> out(n);
      const DeviceArray<float> device_own(n, n % 7);
      const DeviceArray<float>& device_out = into_part && divisor == 0.0F ? *device_parts.back() : device_own;
      if (divisor != 0.0F) {
        sum_in_rank_order(reference_, views, divisor, out, view_of(status));
        sum_in_rank_order(*place_, device_views, divisor, device_out.view(), device_status.view());
      } else {
        weighted_sum(reference_, views, weights, out, view_of(status));
        weighted_sum(*place_, device_views, weights, device_out.view(), device_status.view());
      }
      EXPECT_TRUE(same_numbers(device_out.values(), out)) << count << " parts of " << n << " over " << divisor;
      EXPECT_EQ(device_status.read().nonfinite, status.nonfinite) << count << " parts of " << n << " over " << divisor;
      EXPECT_TRUE(device_out.intact() && device_status.intact()) << n;
    }
  }
};

TEST_F(CudaSums, EverySize) {
  for (const std::size_t n : kSizes) {
    for (const float extra : kExtras) expect_reference(n, 3, extra, false);
    expect_reference(n, 4, 0.0F, true);
  }
}

TEST_F(CudaSums, AnyNumberOfParts) {
  for (const std::size_t count : {1U, 2U, 8U, 63U, 64U, 65U, 128U, 130U}) expect_reference(2053, count, 0.0F, true);
}

TEST_F(CudaSums, APartMayReceiveTheSum) {
  const auto first = awkward_values(3001, 1);
  auto second = awkward_values(3001, 2);
  const DeviceArray<float> device_first(first, 1);
  const DeviceArray<float> device_second(second, 2);
  Status status;
  const DeviceStatus device_status;
  const std::vector<View<const float>> views{first, second};
  const std::vector<View<const float>> device_views{device_first.view(), device_second.view()};
  sum_in_rank_order(reference_, views, 2.0F, second, view_of(status));
  sum_in_rank_order(*place_, device_views, 2.0F, device_second.view(), device_status.view());
  EXPECT_TRUE(same_numbers(device_second.values(), second));
  EXPECT_EQ(device_status.read().nonfinite, status.nonfinite);
}

TEST_F(Cuda, SpoilsOnlyAfterANonfiniteValue) {
  for (const std::uint32_t flag : {0U, 1U}) {
    Status status;
    status.nonfinite = flag;
    const DeviceArray<Status> device_status(std::vector<Status>{status});
    std::vector<float> values{1.0F, 2.0F, 3.0F};
    const DeviceArray<float> device(values, 1);
    spoil_if_nonfinite(reference_, values, view_of(status));
    spoil_if_nonfinite(*place_, device.view(), device_status.view());
    EXPECT_TRUE(same_bits(device.values(), values));
    EXPECT_TRUE(device.intact());
  }
}

}  // namespace
}  // namespace laconic::test
