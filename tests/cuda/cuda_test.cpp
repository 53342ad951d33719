// The CUDA twins against the CPU's references, bit for bit, and the place that they run on. Skipped, and said so, where
// there is no CUDA device.

#include <gtest/gtest.h>

#include "base/message_memory.h"
#include "base/workspace.h"
#include "cuda/fixture.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "kernels/quantize/quantize.h"
#include "kernels/sign/sign.h"

namespace laconic::test {
namespace {

TEST_F(Cuda, PlaceHasAStreamOfItsOwnOrTheCallers) {
  EXPECT_EQ(place_->device(), Device::cuda);
  EXPECT_NE(cuda_stream(*place_), nullptr);
  EXPECT_EQ(cuda_stream(*cuda_place({.stream = nullptr})), nullptr);
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreate(&stream), "cudaStreamCreate");
  {
    const auto place = cuda_place({.device = 0, .stream = stream});
    EXPECT_EQ(cuda_stream(*place), stream);
    DeviceArray<float> values(100);
    fill(*place, 3.0F, values.view());
    EXPECT_EQ(values.values(), std::vector<float>(100, 3.0F));
  }
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess) << "the caller's stream outlives the place";
  cudaStreamDestroy(stream);
}

/// Without it every result is right, and selections are slower. A build without code for 9.0 and later has none of it.
TEST_F(Cuda, KernelsOverlapWhereTheDeviceCan) {
  int major = 0;
  cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "cudaDeviceGetAttribute");
  EXPECT_EQ(cuda::kernels_overlap(), major >= 9) << "are 90 or later among CMAKE_CUDA_ARCHITECTURES?";
}

TEST_F(Cuda, WorkspaceIsDeviceMemoryThatIsReused) {
  Workspace& workspace = place_->workspace();
  const auto use = [&] {
    Workspace::Scope scope(workspace);
    const auto few = workspace.take<float>(10);
    const auto many = workspace.take<float>(1'000'000);
    cudaPointerAttributes attributes{};
    cuda::check(cudaPointerGetAttributes(&attributes, many.data()), "cudaPointerGetAttributes");
    EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
    fill(*place_, 1.0F, few);
    fill(*place_, 2.0F, many);
    return many.data();
  };
  use();  // two blocks, which stay
  const float* settled = use();
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  cuda::check(cudaMemGetInfo(&before, &total), "cudaMemGetInfo");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(use(), settled);
  cuda::check(cudaMemGetInfo(&after, &total), "cudaMemGetInfo");
  EXPECT_EQ(after, before);
}

/// To free memory of a device would wait for all of its work.
TEST_F(Cuda, MessagesOfVaryingLengthKeepWhatTheyOutgrew) {
  MessageMemory memory;
  memory.reserve_varying(*place_, 10'000);
  const std::byte* first = memory.view(10'000).data();
  memory.reserve_varying(*place_, 12'500);
  EXPECT_EQ(memory.view(12'500).data(), first) << "a quarter more than was asked for";
  memory.reserve_varying(*place_, 12'501);
  const std::byte* second = memory.view(12'501).data();
  EXPECT_NE(second, first);
  memory.reserve_varying(*place_, 25'000);
  EXPECT_EQ(memory.view(25'000).data(), second) << "at least twice as much as before";
  EXPECT_NE(message_owner(first, 10'000), nullptr);
  EXPECT_EQ(memory.view(1).device(), Device::cuda);
}

TEST_F(Cuda, StatusComesOverTheStream) {
  const DeviceArray<Status> status(std::vector<Status>(1));
  const DeviceArray<float> values(std::vector<float>{1.0F, kInfinity});
  EXPECT_EQ(read_status(*place_, status.view()).nonfinite, 0U);
  require_sound(*place_, status.view());
  find_nonfinite(*place_, values.view(), status.view());
  EXPECT_EQ(read_status(*place_, status.view()).nonfinite, 1U);
  Status faulty;
  faulty.fault = PayloadFault::too_short;
  const DeviceArray<Status> fault(std::vector<Status>{faulty});
  EXPECT_THROW(require_sound(*place_, fault.view()), CorruptPayload);
}

TEST_F(Cuda, FillAndCopy) {
  for (const std::size_t n : kSizes) {
    const DeviceArray<float> filled(n, n % 5);
    fill(*place_, -2.5F, filled.view());
    EXPECT_TRUE(same_bits(filled.values(), std::vector<float>(n, -2.5F)));
    EXPECT_TRUE(filled.intact()) << n;
    const auto values = awkward_values(n, n, kNotANumber);
    const DeviceArray<float> from(values, n % 3);
    copy(*place_, from.view(), filled.view());
    EXPECT_TRUE(same_bits(filled.values(), values));
    EXPECT_TRUE(filled.intact()) << n;
  }
}

TEST_F(Cuda, AxpyAndDivide) {
  for (const std::size_t n : kSizes) {
    const auto x = awkward_values(n, 1);
    auto y = normal_values(n, 2);
    const DeviceArray<float> device_x(x, n % 3);
    const DeviceArray<float> device_y(y, n % 7);
    axpy(reference_, 0.3F, x, y);
    axpy(*place_, 0.3F, device_x.view(), device_y.view());
    EXPECT_TRUE(same_bits(device_y.values(), y)) << "axpy of " << n;
    for (const float divisor : {3.0F, 1e-30F, 1e30F}) {
      divide(reference_, divisor, y);
      divide(*place_, divisor, device_y.view());
      EXPECT_TRUE(same_bits(device_y.values(), y)) << n << " divided by " << divisor;
    }
    EXPECT_TRUE(device_y.intact()) << n;
  }
}

TEST_F(Cuda, FindNonfinite) {
  for (const std::size_t n : kSizes) {
    for (const float bad : {kInfinity, -kInfinity, kNotANumber}) {
      auto values = awkward_values(n, 3);
      for (const bool planted : {false, true}) {
        if (planted && n > 0) values[n * 2 / 3] = bad;
        const DeviceArray<float> device(values, 1);
        const DeviceArray<Status> status(std::vector<Status>(1));
        find_nonfinite(*place_, device.view(), status.view());
        EXPECT_EQ(read_status(*place_, status.view()).nonfinite, planted && n > 0 ? 1U : 0U) << n;
        EXPECT_TRUE(status.intact());
      }
    }
  }
}

TEST_F(Cuda, Signs) {
  for (const std::size_t n : kSizes) {
    for (const float extra : {0.0F, kInfinity, kNotANumber}) {
      const auto values = awkward_values(n, n + 1, extra);
      std::vector<std::uint32_t> words(sign_words(n));
      Status expected;
      pack_signs(reference_, values, words, view_of(expected));

      const DeviceArray<float> device(values, n % 5);
      const DeviceArray<std::uint32_t> packed(words.size(), n % 3);
      const DeviceArray<Status> status(std::vector<Status>(1));
      pack_signs(*place_, device.view(), packed.view(), status.view());
      EXPECT_TRUE(same_bits(packed.values(), words)) << n;
      EXPECT_EQ(read_status(*place_, status.view()).nonfinite, expected.nonfinite) << n;
      EXPECT_TRUE(packed.intact()) << n;

      auto unpacked = values;
      unpack_signs(reference_, words, 0.125F, unpacked);
      unpack_signs(*place_, packed.view(), 0.125F, device.view());
      EXPECT_TRUE(same_bits(device.values(), unpacked)) << n;
      EXPECT_TRUE(device.intact()) << n;
    }
  }
}

class CudaQuantize : public Cuda {
 protected:
  /// Quantizes and adds back on both places, and compares. The packed bytes begin at any byte.
  void expect_reference(const std::vector<float>& values, float norm, const Quantizer& quantizer) {
    const std::size_t n = values.size();
    std::vector<std::byte> packed(quantized_bytes(n, quantizer.bits));
    quantize(reference_, values, {&norm, 1}, quantizer, packed);
    auto sums = normal_values(n, 9);
    const DeviceArray<float> device_sums(sums, n % 3);
    dequantize_add(reference_, packed, {&norm, 1}, quantizer.bits, sums);

    const DeviceArray<float> device(values, n % 5);
    const DeviceArray<float> device_norm(std::vector<float>{norm});
    const DeviceArray<std::byte> device_packed(packed.size(), n % 4);
    quantize(*place_, device.view(), device_norm.view(), quantizer, device_packed.view());
    ASSERT_TRUE(same_bits(device_packed.values(), packed)) << "bits " << quantizer.bits << " n " << n;
    EXPECT_TRUE(device_packed.intact()) << "bits " << quantizer.bits << " n " << n;
    dequantize_add(*place_, device_packed.view(), device_norm.view(), quantizer.bits, device_sums.view());
    ASSERT_TRUE(same_bits(device_sums.values(), sums)) << "bits " << quantizer.bits << " n " << n;
    EXPECT_TRUE(device_sums.intact()) << "bits " << quantizer.bits << " n " << n;
  }

  static Quantizer quantizer_of(int bits, Purpose purpose = Purpose::rounding) {
    const RandomStream stream{.seed = 0x1234'5678'9ABC'DEF0U, .step = 5, .rank = 3, .tensor = 7, .purpose = purpose};
    return {.bits = bits, .rounding = stream, .first = 512ULL * 9};
  }
};

TEST_F(CudaQuantize, EveryWidthAtEverySize) {
  for (int bits = 2; bits <= 16; ++bits) {
    for (const std::size_t n : kSizes) {
      expect_reference(normal_values(n, n), 4.5F, quantizer_of(bits));
    }
    expect_reference(normal_values(2048, 4), 4.5F, quantizer_of(bits));  // words aligned, groups alone
  }
}

TEST_F(CudaQuantize, AwkwardNormsAndValues) {
  for (const int bits : {2, 4, 7, 8, 16}) {
    for (const float norm : {0.0F, 1e-45F, 1e-30F, 1.0F, 1e30F, 3e38F}) {
      expect_reference(awkward_values(3001, 8), norm, quantizer_of(bits, Purpose::return_rounding));
    }
    expect_reference(awkward_values(3001, 8, kInfinity), 1.0F, quantizer_of(bits));
    expect_reference(awkward_values(3001, 8, kNotANumber), 1.0F, quantizer_of(bits));
  }
}

TEST_F(CudaQuantize, TiesAreSettledByTheFurtherBits) {
  for (const Purpose purpose : {Purpose::rounding, Purpose::return_rounding}) {
    for (const int bits : {4, 5, 8}) {
      const Quantizer quantizer = quantizer_of(bits, purpose);
      std::vector<float> values(2048 + 99);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double fraction = (65535 - draw16(quantizer.rounding, quantizer.first + i)) / 65536.0;
        const double further = static_cast<double>(i % 64 * 4) / 0x1p24;
        values[i] = static_cast<float>(fraction + further) * (i % 3 == 0 ? -1.0F : 1.0F);
      }
      expect_reference(values, static_cast<float>((1 << (bits - 1)) - 1), quantizer);
    }
  }
}

}  // namespace
}  // namespace laconic::test
