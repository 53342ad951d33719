// The twins of quantizing by fixed scopes, to the nearest level and with a rest, and of the scopes' norms.

#include <cfloat>
#include <cmath>
#include <cstring>
#include <deque>

#include "base/each.h"
#include "cuda/fixture.h"
#include "kernels/norm/norm.h"
#include "kernels/quantize/quantize.h"

namespace laconic::test {
namespace {

class CudaQuantizeScopes : public Cuda {
 protected:
  static Quantizer quantizer_of(int bits, std::uint64_t scope, Rounding kind, std::uint64_t first = 65'536) {
    const RandomStream stream{.seed = 77, .step = 5, .rank = 3, .tensor = 7, .purpose = Purpose::rounding};
    return {.bits = bits, .rounding = stream, .first = first, .kind = kind, .scope = scope};
  }

  std::vector<float> norms_in(const std::vector<float>& values, std::uint64_t scope) {
    std::vector<float> norms(norms_of(values.size(), scope));
    Status status;
    if (scope == 0) {
      norm(reference_, values, Norm::max, norms, view_of(status));
    } else {
      scope_norms(reference_, values, scope, Norm::max, norms, view_of(status));
    }
    return norms;
  }

  /// Quantizes with a rest and adds back on both places, and compares. The packed bytes begin at any byte.
  void expect_reference(const std::vector<float>& values, const std::vector<float>& norms, const Quantizer& quantizer) {
    const std::size_t n = values.size();
    SCOPED_TRACE("bits " + std::to_string(quantizer.bits) + " scope " + std::to_string(quantizer.scope) + " n " +
                 std::to_string(n));
    std::vector<std::byte> packed(quantized_bytes(n, quantizer.bits));
    std::vector<float> rest(n);
    quantize(reference_, values, norms, quantizer, packed, rest);
    auto sums = normal_values(n, 9);
    const DeviceArray<float> device_sums(sums, n % 3);
    dequantize_add(reference_, packed, norms, quantizer.bits, sums, quantizer.scope);

    const DeviceArray<float> device(values, n % 5);
    const DeviceArray<float> device_norms(norms);
    const DeviceArray<std::byte> device_packed(packed.size(), n % 4);
    const DeviceArray<float> device_rest(n, n % 7);
    quantize(*place_, device.view(), device_norms.view(), quantizer, device_packed.view(), device_rest.view());
    ASSERT_TRUE(same_bits(device_packed.values(), packed));
    ASSERT_TRUE(same_numbers(device_rest.values(), rest));
    EXPECT_TRUE(device_packed.intact() && device_rest.intact());
    const DeviceArray<std::byte> alone(packed.size(), n % 4);
    quantize(*place_, device.view(), device_norms.view(), quantizer, alone.view());
    ASSERT_TRUE(same_bits(alone.values(), packed)) << "without a rest";
    dequantize_add(*place_, device_packed.view(), device_norms.view(), quantizer.bits, device_sums.view(),
                   quantizer.scope);
    ASSERT_TRUE(same_bits(device_sums.values(), sums));
    EXPECT_TRUE(device_sums.intact());
  }
};

TEST_F(CudaQuantizeScopes, EveryScopeRoundingAndSize) {
  for (const Rounding kind : {Rounding::stochastic, Rounding::nearest}) {
    for (const std::uint64_t scope : {0ULL, 64ULL, 128ULL, 256ULL, 512ULL, 2048ULL, 65'536ULL}) {
      for (const int bits : {2, 3, 4, 8, 11}) {
        for (const std::size_t n : {0UL, 1UL, 65UL, 511UL, 512UL, 513UL, 4999UL, 140'003UL}) {
          if ((n > 5000 && bits != 4) || left_out()) continue;
          const auto values = normal_values(n, n + scope);
          expect_reference(values, norms_in(values, scope), quantizer_of(bits, scope, kind));
        }
      }
    }
  }
}

TEST_F(CudaQuantizeScopes, AwkwardNormsAndValues) {
  for (const Rounding kind : {Rounding::stochastic, Rounding::nearest}) {
    for (const float extra : kExtras) {
      const auto values = awkward_values(3001, 8, extra);
      std::vector<float> norms(norms_of(values.size(), 64));
      const float awkward[]{0.0F, 1e-45F, 1e-30F, 1.0F, 1e30F, 3e38F, kNotANumber, -1.0F};
      for (std::size_t i = 0; i < norms.size(); ++i) norms[i] = awkward[i % std::size(awkward)];
      // A norm that is not above zero adds nothing only where no field has a level, so it is not decoded here.
      const Quantizer quantizer = quantizer_of(4, 64, kind);
      std::vector<std::byte> packed(quantized_bytes(values.size(), 4));
      std::vector<float> rest(values.size());
      quantize(reference_, values, norms, quantizer, packed, rest);
      const DeviceArray<float> device(values, 1);
      const DeviceArray<float> device_norms(norms);
      const DeviceArray<std::byte> device_packed(packed.size(), 3);
      const DeviceArray<float> device_rest(values.size());
      quantize(*place_, device.view(), device_norms.view(), quantizer, device_packed.view(), device_rest.view());
      EXPECT_TRUE(same_bits(device_packed.values(), packed));
      EXPECT_TRUE(same_numbers(device_rest.values(), rest));
    }
  }
}

/// Payloads of any bytes, so that every field meets every place of a word: zeros with a sign as well.
class CudaSums : public CudaQuantizeScopes {
 protected:
  static constexpr std::size_t n = 40 * 512 + 77;
  static constexpr float kAwkward[]{0.0F,    1e-45F, 1e-38F, 0.3F,        3e7F,    3e38F,
                                    FLT_MAX, -0.0F,  -2.0F,  kNotANumber, INFINITY};

  static std::vector<float> ordinary(std::size_t rank, std::size_t count) {
    std::vector<float> norms(count);
    for (std::size_t i = 0; i < count; ++i) norms[i] = static_cast<float>(i + rank);
    return norms;
  }
  /// Beginning with that one.
  static std::vector<float> awkward(std::size_t first, std::size_t count) {
    std::vector<float> norms(count);
    for (std::size_t i = 0; i < count; ++i) norms[i] = kAwkward[(first + i) % std::size(kAwkward)];
    return norms;
  }

  /// norms_of_rank(rank, count) gives a payload's norms.
  template <class NormsOfRank>
  void expect_reference_sum(int bits, std::uint64_t scope, std::size_t ranks, NormsOfRank norms_of_rank) {
    const std::size_t norm_bytes = norms_of(n, scope) * sizeof(float);
    std::vector<std::vector<std::byte>> messages(ranks);
    std::deque<DeviceArray<std::byte>> there;
    std::vector<View<const std::byte>> payloads, device_payloads;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<std::byte>& message = messages[rank];
      message.resize(norm_bytes + quantized_bytes(n, bits));
      for (std::size_t i = 0; i < message.size(); ++i) message[i] = static_cast<std::byte>(i * (2 * rank + 7) >> 3);
      const std::vector<float> norms = norms_of_rank(rank, norms_of(n, scope));
      std::memcpy(message.data(), norms.data(), norm_bytes);
      payloads.emplace_back(message);
      there.emplace_back(message);
      device_payloads.emplace_back(there.back().view());
    }
    std::vector<float> sums(n);
    Status status;
    const auto divisor = static_cast<float>(ranks);
    dequantize_sum(reference_, payloads, just(DequantizeSection{0, norm_bytes, sums}), bits, scope, divisor,
                   view_of(status));
    const DeviceArray<float> device_sums(n);
    const DeviceArray<Status> device_status(std::vector<Status>{Status{}});
    dequantize_sum(*place_, device_payloads, just(DequantizeSection{0, norm_bytes, device_sums.view()}), bits, scope,
                   divisor, device_status.view());
    EXPECT_TRUE(same_numbers(device_sums.values(), sums))
        << bits << " bits, scope " << scope << ", " << ranks << " ranks";
    EXPECT_EQ(device_status.values()[0].nonfinite, status.nonfinite);
    EXPECT_TRUE(device_sums.intact());
  }
};

TEST_F(CudaSums, OfAnyFieldsAreTheReferences) {
  for (const int bits : {4, 5, 8}) {
    for (const std::uint64_t scope : {0ULL, 64ULL, 2048ULL}) {
      for (const std::size_t ranks : {1UL, 2UL, 7UL, 33UL, 64UL, 70UL}) {  // 70: more than parameters hold
        if (!left_out()) expect_reference_sum(bits, scope, ranks, ordinary);
      }
    }
  }
}

TEST_F(CudaSums, OfAwkwardNormsAreTheReferences) {
  for (const int bits : {4, 5, 8}) {
    for (const std::uint64_t scope : {0ULL, 64ULL, 2048ULL}) {
      for (std::size_t first = 0; first < std::size(kAwkward); ++first) {
        if (left_out()) continue;
        expect_reference_sum(bits, scope, 2, [&](std::size_t rank, std::size_t count) {
          return awkward(first + rank, count);
        });
        expect_reference_sum(bits, scope, 40, [&](std::size_t rank, std::size_t count) {
          return rank == 35 ? awkward(first, count) : ordinary(rank, count);
        });
      }
    }
  }
}

TEST_F(CudaQuantizeScopes, TiesAreSettledWithTheirRests) {
  const Quantizer quantizer = quantizer_of(4, 128, Rounding::stochastic);
  std::vector<float> values(2048 + 99);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double fraction = (65535 - draw16(quantizer.rounding, quantizer.first + i)) / 65536.0;
    const double further = static_cast<double>(i % 64 * 4) / 0x1p24;
    values[i] = static_cast<float>(fraction + further) * (i % 3 == 0 ? -1.0F : 1.0F);
  }
  expect_reference(values, std::vector<float>(norms_of(values.size(), 128), 7.0F), quantizer);
}

TEST_F(CudaQuantizeScopes, NormsOfEveryScopeAndSize) {
  for (const Norm kind : {Norm::l2, Norm::max}) {
    for (const std::uint64_t scope : {64ULL, 256ULL, 1024ULL, 2048ULL, 8192ULL, 65'536ULL}) {
      for (const std::size_t n : {0UL, 1UL, 63UL, 64UL, 65UL, 8193UL, 200'003UL}) {
        for (const float extra : kExtras) {
          if (left_out()) continue;
          const auto values = awkward_values(n, n + 2, extra);
          std::vector<float> norms((n + scope - 1) / scope);
          Status status;
          scope_norms(reference_, values, scope, kind, norms, view_of(status));
          const DeviceArray<float> device(values, n % 5);
          const DeviceArray<float> device_norms(norms.size(), n % 3);
          const DeviceStatus device_status;
          scope_norms(*place_, device.view(), scope, kind, device_norms.view(), device_status.view());
          ASSERT_TRUE(same_bits(device_norms.values(), norms)) << "scope " << scope << " n " << n;
          EXPECT_EQ(device_status.read().nonfinite, status.nonfinite);
          EXPECT_TRUE(device_norms.intact() && device_status.intact());
        }
      }
    }
  }
}

TEST_F(CudaQuantizeScopes, SumsOfPayloadsAreTheReferences) {
  constexpr int kMessages = 17;  // more than two launches take
  for (const std::uint64_t scope : {0ULL, 64ULL, 512ULL, 65'536ULL}) {
    for (const int bits : {2, 4, 7, 8, 16}) {
      for (const std::size_t n : {1UL, 511UL, 512UL, 4999UL, 70'003UL}) {
        const std::uint64_t norms_bytes = norms_of(n, scope) * sizeof(float);
        std::vector<std::vector<std::byte>> messages;
        for (int rank = 0; rank < kMessages; ++rank) {
          const auto values = normal_values(n, n + static_cast<std::uint64_t>(rank));
          const auto norms = norms_in(values, scope);
          auto& message = messages.emplace_back(32 + norms_bytes + quantized_bytes(n, bits));
          std::memcpy(message.data() + 32, norms.data(), norms_bytes);
          quantize(reference_, values, norms, quantizer_of(bits, scope, Rounding::stochastic),
                   View<std::byte>(message).sub(32 + norms_bytes, quantized_bytes(n, bits)));
        }
        for (const int ranks : {1, 3, 8, 9, kMessages}) {
          if ((n > 5000 && (bits != 4 || ranks != 9)) || left_out()) continue;
          std::vector<View<const std::byte>> payloads;
          std::deque<DeviceArray<std::byte>> there;
          std::vector<View<const std::byte>> device_payloads;
          for (int rank = 0; rank < ranks; ++rank) {
            payloads.emplace_back(messages[static_cast<std::size_t>(rank)]);
            there.emplace_back(messages[static_cast<std::size_t>(rank)], 4 * (n % 2));
          }
          for (const auto& payload : there) device_payloads.push_back(payload.view());
          std::vector<float> expected(n, kNotANumber);
          Status status;
          const DeviceStatus device_status;
          const auto divisor = static_cast<float>(ranks);
          dequantize_sum(reference_, payloads, just(DequantizeSection{32, 32 + norms_bytes, expected}), bits, scope,
                         divisor, view_of(status));
          const DeviceArray<float> sums(std::vector<float>(n, kNotANumber), n % 3);
          dequantize_sum(*place_, device_payloads, just(DequantizeSection{32, 32 + norms_bytes, sums.view()}), bits,
                         scope, divisor, device_status.view());
          EXPECT_EQ(device_status.read().nonfinite, 0U);
          ASSERT_TRUE(same_bits(sums.values(), expected))
              << "scope " << scope << " bits " << bits << " n " << n << " ranks " << ranks;
          EXPECT_TRUE(sums.intact());
        }
      }
    }
  }
}

}  // namespace
}  // namespace laconic::test
