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

/// With two bits a level is the norm itself: integers stay integers, and nothing that is sent, summed or kept rounds.
TEST(Quantized, NothingIsLostWithAMemory) {
  for (const int workers : {1, 2, 3, 4}) {
    for (const char* rounding : {"stochastic", "nearest"}) {
      for (const char* back : {"full", "requantized"}) {
        for (const char* scope : {"tensor", "model", "chunk"}) {
          SCOPED_TRACE(std::to_string(workers) + " workers, " + rounding + ", " + back + ", " + scope);
          run_ranks(workers, [&](Communicator& communicator) {
            Place place({.threads = 1});
            const auto method = make_method(
                "terngrad",
                {.scope = scope, .route = "scatter", .return_ = back, .rounding = rounding, .memory = "error"},
                communicator, place);
            method->register_tensors(small_model());
            const auto n = size_of(small_model());
            std::vector<float> residual(n, 0.0F);
            double largest = 0.0;
            for (std::uint32_t step = 0; step < 8; ++step) {
              auto gradient = integer_gradient(n, communicator.rank(), step);
              const auto came = sum_everywhere(communicator, gradient);
              const auto owed = sum_everywhere(communicator, residual);
              method->reduce({1, step, static_cast<std::uint32_t>(communicator.rank())}, gradient);
              method->save().get("residual", residual);
              const auto still_owed = sum_everywhere(communicator, residual);
              for (std::size_t i = 0; i < n; ++i) {
                const double sent = std::round(static_cast<double>(gradient[i]) * communicator.size());
                ASSERT_EQ(sent + still_owed[i], came[i] + owed[i]) << "step " << step << " entry " << i;
                largest = std::max(largest, std::abs(sent));
              }
            }
            EXPECT_GT(largest, 0.0);
          });
        }
      }
    }
  }
}

TEST(Quantized, AResizeKeepsTheMeanOfWhatIsOwed) {
  run_ranks(3, [](Communicator& communicator) {
    const auto next = communicator.duplicate();
    Place place({.threads = 1});
    const auto method = make_method("block-quant", {}, communicator, place);
    method->register_tensors(small_model());
    std::vector<float> residual(size_of(small_model()));
    for (std::uint32_t step = 0; step < 3; ++step) {
      auto gradient = exact_gradient(communicator.rank(), step);
      method->reduce({1, step}, gradient);
    }
    method->save().get("residual", residual);
    const auto owed = sum_everywhere(communicator, residual);
    method->resize(next.get());
    method->save().get("residual", residual);
    double largest = 0.0;
    for (std::size_t i = 0; i < residual.size(); ++i) {
      ASSERT_NEAR(residual[i], owed[i] / 3.0, 1e-5) << i;
      largest = std::max(largest, std::abs(owed[i]));
    }
    EXPECT_GT(largest, 0.1) << "something must be owed";
    EXPECT_GT(method->residual_norm(), 0.0);
  });
}

/// What a rank sends does not grow with the number of ranks: 2(W−1)/W times its payload.
TEST(Quantized, AReturnInFewBitsCostsAsMuchAsTheWayThere) {
  for (const int workers : {2, 4, 8}) {
    run_ranks(workers, [&](Communicator& communicator) {
      Place place({.threads = 1});
      const auto method = make_method("block-quant", {}, communicator, place);
      auto gradient = normal_values(1 << 18, static_cast<std::uint64_t>(communicator.rank()));
      const StepReport report = method->reduce({1, 0}, gradient);
      const double bits = 8.0 * static_cast<double>(report.traffic.payload_bytes) / (1 << 18);
      EXPECT_NEAR(bits, 4.125, 0.01);
      const double expected = 2.0 * (workers - 1) / workers * static_cast<double>(report.traffic.payload_bytes);
      EXPECT_NEAR(static_cast<double>(report.traffic.sent_bytes), expected, 0.01 * expected);
    });
  }
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
