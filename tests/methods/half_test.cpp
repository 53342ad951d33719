// fp16 and bf16 against a model of their wire: 16-bit values both ways, sums in float32. Exact, 50 steps.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/support.h"

namespace laconic::test {
namespace {

struct Format {
  const char* method;
  int fraction_bits;      ///< behind the leading one
  int smallest_exponent;  ///< of a normal number; below it values get coarser
};

/// To the nearest value of the format, ties to the even one: float64 is wide enough to do it with one rounding.
double rounded(double value, const Format& format) {
  if (value == 0.0) return value;
  const int exponent = std::max(std::ilogb(value), format.smallest_exponent);
  const double unit = std::ldexp(1.0, exponent - format.fraction_bits);
  return std::nearbyint(value / unit) * unit;
}

/// From a thousand down to the smallest numbers that fp16 knows, where it has few bits left or none.
std::vector<float> gradient_of(std::uint64_t n, int rank, std::uint32_t step) {
  auto values = normal_values(n, 100ULL * step + static_cast<std::uint64_t>(rank));
  for (float& value : values) value *= std::ldexp(1.0F, 10 - static_cast<int>(step % 37));
  return values;
}

TEST(Half, EqualsTheModelOfItsWireExactly) {
  for (const Format& format : {Format{"fp16", 10, -14}, Format{"bf16", 7, -126}}) {
    for (const int workers : {1, 3, 4}) {
      run_ranks(workers, [&](Communicator& communicator) {
        Place place({.threads = 1});
        const auto method = make_method(format.method, {}, communicator, place);
        method->register_tensors(small_model());
        const auto n = size_of(small_model());
        for (std::uint32_t step = 0; step < 50; ++step) {
          std::vector<float> sum(n, -0.0F);
          for (int rank = 0; rank < workers; ++rank) {
            const auto sent = gradient_of(n, rank, step);
            for (std::size_t i = 0; i < n; ++i) {
              sum[i] += static_cast<float>(rounded(static_cast<double>(sent[i]), format));
            }
          }
          auto gradient = gradient_of(n, communicator.rank(), step);
          method->reduce({1, step, static_cast<std::uint32_t>(communicator.rank())}, gradient);
          for (std::size_t i = 0; i < n; ++i) {
            const double mean = static_cast<double>(sum[i] / static_cast<float>(workers));
            ASSERT_EQ(static_cast<double>(gradient[i]), rounded(mean, format))
                << format.method << ", " << workers << " workers, step " << step << " entry " << i;
          }
        }
      });
    }
  }
}

TEST(Half, OverflowCountsAsNonfinite) {
  run_ranks(2, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method("fp16", {}, communicator, place);
    std::vector<float> gradient(10, communicator.rank() == 1 ? 1e6F : 1.0F);
    EXPECT_THROW(method->reduce({1, 0, static_cast<std::uint32_t>(communicator.rank())}, gradient), InvalidConfig);
  });
}

}  // namespace
}  // namespace laconic::test
