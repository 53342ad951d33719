// The twins of kernels/convert against the reference, over every 16-bit value and around every one of them.

#include <bit>

#include "cuda/fixture.h"
#include "kernels/convert/convert.h"

namespace laconic::test {
namespace {

constexpr ValueFormat kFormats[] = {ValueFormat::f16, ValueFormat::bf16};

class CudaConvert : public Cuda {
 protected:
  void expect_narrowed(const std::vector<float>& values, ValueFormat format, std::size_t shift) {
    const std::size_t n = values.size();
    std::vector<std::uint16_t> narrowed(n);
    Status status;
    to_16bit(reference_, values, format, narrowed, view_of(status));
    const DeviceArray<float> device(values, shift);
    const DeviceArray<std::uint16_t> device_narrowed(n, shift + 1);
    const DeviceStatus device_status;
    to_16bit(*place_, device.view(), format, device_narrowed.view(), device_status.view());
    EXPECT_TRUE(same_bits(device_narrowed.values(), narrowed)) << format_name(format) << " of " << n;
    EXPECT_EQ(device_status.read().nonfinite, status.nonfinite) << n;
    EXPECT_TRUE(device_narrowed.intact() && device_status.intact()) << n;

    auto rounded = values;
    std::vector<float> errors(n);
    Status round_status;
    round_through_16bit(reference_, format, rounded, errors, view_of(round_status));
    const DeviceArray<float> device_errors(n, shift + 2);
    const DeviceStatus device_round_status;
    round_through_16bit(*place_, format, device.view(), device_errors.view(), device_round_status.view());
    EXPECT_TRUE(same_bits(device.values(), rounded)) << format_name(format) << " of " << n;
    EXPECT_TRUE(same_numbers(device_errors.values(), errors)) << format_name(format) << " of " << n;
    EXPECT_EQ(device_round_status.read().nonfinite, round_status.nonfinite) << n;
    EXPECT_TRUE(device.intact() && device_errors.intact()) << n;
  }
};

TEST_F(CudaConvert, EveryValueOf16Bits) {
  std::vector<std::uint16_t> all(65'536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const ValueFormat format : kFormats) {
    const DeviceArray<std::uint16_t> device(all, 3);
    std::vector<float> widened(all.size());
    const DeviceArray<float> device_widened(all.size(), 1);
    from_16bit(reference_, all, format, widened);
    from_16bit(*place_, device.view(), format, device_widened.view());
    EXPECT_TRUE(same_bits(device_widened.values(), widened)) << format_name(format);
    EXPECT_TRUE(device_widened.intact());

    std::vector<float> around;  // each value, its neighbours, and the ties between it and the next
    for (const float value : widened) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      const std::uint32_t half = format == ValueFormat::f16 ? 0x1000U : 0x8000U;
      for (const std::uint32_t offset : {0U, 1U, 0xFFFF'FFFFU, half, half - 1, half + 1}) {
        around.push_back(std::bit_cast<float>(bits + offset));
      }
    }
    expect_narrowed(around, format, 1);
  }
}

TEST_F(CudaConvert, EverySize) {
  for (const ValueFormat format : kFormats) {
    for (const std::size_t n : kSizes) {
      for (const float extra : kExtras) expect_narrowed(awkward_values(n, n, extra), format, n % 5);
      auto small = normal_values(n, n);
      for (float& value : small) value *= 1e-3F;
      expect_narrowed(small, format, 0);  // nothing overflows: the flag stays down
    }
  }
}

}  // namespace
}  // namespace laconic::test
