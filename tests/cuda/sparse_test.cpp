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

TEST_F(Cuda, IndicesInScopes) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{300}}) {
    std::vector<Scope> scopes;
    std::vector<std::uint32_t> indices, expected;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t offset = 12'000'000 * i, selected = i % 5 == 3 ? 5'000 : i % 7;
      scopes.push_back({0, offset, 10'000, indices.size(), selected});
      for (std::uint64_t j = 0; j < selected; ++j) {
        expected.push_back(static_cast<std::uint32_t>(2 * j + i % 2));
        indices.push_back(static_cast<std::uint32_t>(offset) + expected.back());
      }
    }
    std::vector<std::uint32_t> on_cpu(indices.size());
    indices_in_scopes(reference_, scopes, indices, on_cpu);
    EXPECT_EQ(on_cpu, expected);
    const DeviceArray<std::uint32_t> device(indices, count % 3), within(indices.size(), count % 5);
    indices_in_scopes(*place_, scopes, device.view(), within.view());
    EXPECT_TRUE(same_bits(within.values(), expected)) << count;
    EXPECT_TRUE(device.intact() && within.intact());
  }
}

}  // namespace
}  // namespace laconic::test
