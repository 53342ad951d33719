// The twins of the single-entry loops of kernels/sparse against the processor's.

#include "cuda/fixture.h"
#include "kernels/sparse/sparse.h"

namespace laconic::test {
namespace {

TEST_F(Cuda, ScatterAndGather) {
  for (const std::size_t n : kSizes) {
    for (const std::size_t stride : {1U, 3U, 97U}) {
      std::vector<std::uint32_t> indices;
      for (std::size_t i = n % 2; i < n; i += stride) indices.push_back(static_cast<std::uint32_t>(i));
      const auto values = awkward_values(indices.size(), 1, kNotANumber);
      auto out = awkward_values(n, 2, kInfinity);
      const DeviceArray<std::uint32_t> device_indices(indices, n % 3);
      const DeviceArray<float> device_values(values, n % 5);
      const DeviceArray<float> device_out(out, n % 7);
      const ConstSparseView entries{indices, values};
      const ConstSparseView device_entries{device_indices.view(), device_values.view()};

      std::vector<float> gathered(indices.size());
      const DeviceArray<float> device_gathered(indices.size(), 1);
      gather(reference_, out, indices, gathered);
      gather(*place_, device_out.view(), device_indices.view(), device_gathered.view());
      EXPECT_TRUE(same_bits(device_gathered.values(), gathered)) << n << " by " << stride;
      EXPECT_TRUE(device_gathered.intact());

      scatter_add(reference_, entries, out);
      scatter_add(*place_, device_entries, device_out.view());
      EXPECT_TRUE(same_numbers(device_out.values(), out)) << n << " by " << stride;
      scatter(reference_, entries, out);
      scatter(*place_, device_entries, device_out.view());
      EXPECT_TRUE(same_numbers(device_out.values(), out)) << n << " by " << stride;
      EXPECT_TRUE(device_out.intact());
    }
  }
}

TEST_F(Cuda, IndicesAreShiftedAndCopied) {
  for (const std::size_t n : kSizes) {
    std::vector<std::uint32_t> indices(n);
    for (std::size_t i = 0; i < n; ++i) indices[i] = static_cast<std::uint32_t>(2 * i + 1);
    const DeviceArray<std::uint32_t> device(indices, n % 3);
    for (const std::uint64_t by : {std::uint64_t{0}, std::uint64_t{17}, std::uint64_t{4'000'000'000}}) {
      shift_indices(reference_, by, indices);
      shift_indices(*place_, by, device.view());
      EXPECT_TRUE(same_bits(device.values(), indices)) << n << " by " << by;
    }
    EXPECT_TRUE(device.intact());
    const DeviceArray<std::uint32_t> copied(n, n % 5);
    copy_indices(*place_, device.view(), copied.view());
    EXPECT_TRUE(same_bits(copied.values(), indices)) << n;
    EXPECT_TRUE(copied.intact());
  }
}

}  // namespace
}  // namespace laconic::test
