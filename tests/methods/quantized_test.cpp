// QSGD, TernGrad and DQ-SGD against models written from their page.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/philox.h"
#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/support.h"

namespace laconic::test {
namespace {

/// Integers up to 64 in magnitude, 64 in every tensor: with the max norm all of r = |x|·s/64 is exact in float32.
std::vector<float> exact_gradient(int rank, std::uint32_t step) {
  auto values = normal_values(size_of(small_model()), 31ULL * step + static_cast<std::uint64_t>(rank));
  std::size_t offset = 0;
  for (float& value : values) value = std::clamp(std::round(value * 20.0F), -64.0F, 64.0F);
  for (const Tensor& tensor : small_model()) values[offset] = 64.0F, offset += tensor.size;
  return values;
}

/// norm·sign·level/s, up with probability frac(r): the 32 random bits are draw16 of the rounding and of its tail.
double quantized(double x, double s, std::uint64_t index, const RandomStream& stream) {
  const double r = std::abs(x) * s / 64.0;
  const double level = std::floor(r);
  const double fraction = std::floor((r - level) * 4294967296.0);
  const double draw = static_cast<double>(draw16(stream, index)) * 65536.0 +
                      static_cast<double>(draw16(stream.with(Purpose::rounding_tail), index));
  const double up = fraction + draw >= 4294967296.0 ? 1.0 : 0.0;
  return (x < 0.0 ? -1.0 : 1.0) * (level + up) * 64.0 / s;
}

/// Of the ranks' mean ℓ2 norm, by the page's non-convex rule.
int rule_bits(double tau, int workers, std::uint32_t step) {
  double mean = 0.0;
  for (int rank = 0; rank < workers; ++rank) {
    double squares = 0.0;
    for (const float value : exact_gradient(rank, step)) {
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    mean += std::sqrt(squares) / workers;
  }
  return static_cast<int>(std::clamp(std::ceil(std::log2(tau * mean + 1.0) + 1.0), 2.0, 16.0));
}

/// 50 steps beside float64; bits_of says what the step's width must be.
void compare(const char* name, const MethodOptions& options, const std::function<int(std::uint32_t)>& bits_of) {
  const int workers = 3;
  run_ranks(workers, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method(name, options, communicator, place);
    method->register_tensors(small_model());
    for (std::uint32_t step = 0; step < 50; ++step) {
      const int bits = bits_of(step);
      const double s = std::pow(2.0, bits - 1) - 1.0;
      std::vector<double> mean(size_of(small_model()), 0.0);
      for (int rank = 0; rank < workers; ++rank) {
        const auto values = exact_gradient(rank, step);
        std::size_t offset = 0;
        std::uint32_t tensor = 0;
        for (const Tensor& each : small_model()) {
          const RandomStream stream{4, step, static_cast<std::uint32_t>(rank), tensor++, Purpose::rounding};
          for (std::size_t i = 0; i < each.size; ++i) {
            mean[offset + i] += quantized(static_cast<double>(values[offset + i]), s, i, stream) / workers;
          }
          offset += each.size;
        }
      }
      auto gradient = exact_gradient(communicator.rank(), step);
      const auto report = method->reduce({4, step, static_cast<std::uint32_t>(communicator.rank())}, gradient);
      EXPECT_EQ(report.bits, bits);
      for (std::size_t i = 0; i < mean.size(); ++i)
        ASSERT_NEAR(gradient[i], mean[i], 1e-4) << "step " << step << " " << i;
    }
  });
}

TEST(Quantized, QsgdEqualsItsPage) {
  compare("qsgd", {.bits = 4, .norm = "max"}, [](std::uint32_t) { return 4; });
  compare("qsgd", {.route = "scatter", .bits = 7, .norm = "max"}, [](std::uint32_t) { return 7; });
}
TEST(Quantized, TerngradEqualsItsPage) {
  compare("terngrad", {}, [](std::uint32_t) { return 2; });
}
TEST(Quantized, DqsgdEqualsItsPage) {
  // A factor at which the drawn norms lie on both sides of a power of two.
  const double tau = 0.0159;
  std::set<int> widths;
  const auto bits_of = [&](std::uint32_t step) { return rule_bits(tau, 3, step); };
  for (std::uint32_t step = 0; step < 50; ++step) widths.insert(bits_of(step));
  EXPECT_GT(widths.size(), 1U) << "the width must change on the way";
  compare("dqsgd", {.norm = "max", .tau = tau, .norm_source = "exact"}, bits_of);
}

TEST(Quantized, RequantizedNeedsScatter) {
  run_ranks(1, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto text =
        message_of<InvalidConfig>([&] { make_method("qsgd", {.return_ = "requantized"}, communicator, place); });
    EXPECT_TRUE(contains(text, "set route = scatter")) << text;
  });
}

TEST(Dqsgd, ChoosesTheBitsByTheWorkersNorms) {
  for (const char* source : {"workers", "exact"}) {
    run_ranks(3, [&](Communicator& communicator) {
      Place place({.threads = 1});
      MethodOptions options{.tau = 0.5, .norm_source = source};
      if (std::string(source) == "workers") options.window = 5;
      const auto method = make_method("dqsgd", options, communicator, place);
      const std::size_t n = 2000;
      std::vector<double> means;
      for (std::uint32_t step = 0; step < 20; ++step) {
        double mean = 0.0;
        const auto gradient_of = [&](int rank) {
          auto values = normal_values(n, 13ULL * step + static_cast<std::uint64_t>(rank));
          for (float& value : values) value *= std::exp(-0.3F * static_cast<float>(step));
          return values;
        };
        for (int rank = 0; rank < 3; ++rank) {
          double squares = 0.0;
          for (const float value : gradient_of(rank))
            squares += static_cast<double>(value) * static_cast<double>(value);
          mean += std::sqrt(squares) / 3;
        }
        double norm = mean;
        if (std::string(source) == "workers" && !means.empty()) {
          const std::size_t first = means.size() > 5 ? means.size() - 5 : 0;
          norm = 0.0;
          for (std::size_t i = first; i < means.size(); ++i)
            norm += means[i] / static_cast<double>(means.size() - first);
        }
        means.push_back(mean);
        auto gradient = gradient_of(communicator.rank());
        const auto report = method->reduce({2, step, static_cast<std::uint32_t>(communicator.rank())}, gradient);
        EXPECT_EQ(report.bits, std::clamp(std::ceil(std::log2(0.5 * norm + 1.0) + 1.0), 2.0, 16.0))
            << source << " " << step;
      }
    });
  }
}

}  // namespace
}  // namespace laconic::test
