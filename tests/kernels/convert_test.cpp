#include "kernels/convert/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "laconic/error.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::Guarded;

template <class Body>
void for_each_place(Body&& body) {
  for (const SimdLevel level : test::available_levels()) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(std::string(simd_name(level)) + ", threads " + std::to_string(threads));
      Place place({.threads = threads, .simd = level});
      body(place);
    }
  }
}

/// A 16-bit format by its parameters, and its value by the definition in float64: what the kernels must agree with,
/// made another way than they are.
struct Model {
  ValueFormat format;
  int mantissa_bits;
  int exponent_bits;

  std::uint32_t exponent_mask() const { return (1U << exponent_bits) - 1; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }

  bool is_special(std::uint32_t bits) const { return (bits >> mantissa_bits & exponent_mask()) == exponent_mask(); }

  double value(std::uint32_t bits) const {  // of a bit pattern that is no NaN or Inf
    const auto exponent = static_cast<int>(bits >> mantissa_bits & exponent_mask());
    const double mantissa = bits & ((1U << mantissa_bits) - 1);
    const double scale = std::ldexp(1.0, (exponent == 0 ? 1 : exponent) - bias() - mantissa_bits);
    const double magnitude = (mantissa + (exponent == 0 ? 0.0 : std::ldexp(1.0, mantissa_bits))) * scale;
    return (bits >> 15) != 0 ? -magnitude : magnitude;
  }

  /// The nearest, ties to the even pattern. One binary search over the positive patterns, which grow with their values.
  std::uint32_t nearest(float value) const {
    const std::uint32_t sign = std::signbit(value) ? 0x8000U : 0U;
    const std::uint32_t infinity = exponent_mask() << mantissa_bits;
    if (std::isnan(value)) {
      const auto payload = std::bit_cast<std::uint32_t>(value) >> (23 - mantissa_bits) & ((1U << mantissa_bits) - 1);
      return sign | infinity | 1U << (mantissa_bits - 1) | payload;
    }
    const double magnitude = std::fabs(static_cast<double>(value));
    std::uint32_t low = 0;
    std::uint32_t high = infinity;  // low's value <= magnitude < high's, infinity standing for the next power of two
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      (this->value(middle) <= magnitude ? low : high) = middle;
    }
    const double above = high == infinity ? std::ldexp(1.0, bias() + 1) : this->value(high);
    const double below_distance = magnitude - this->value(low);
    const double above_distance = above - magnitude;
    if (std::isinf(value)) return sign | infinity;
    if (below_distance == above_distance) return sign | (low % 2 == 0 ? low : high);
    return sign | (below_distance < above_distance ? low : high);
  }
};

const Model kModels[] = {{ValueFormat::f16, 10, 5}, {ValueFormat::bf16, 7, 8}};

/// Every value of the format, every middle between two neighbours, and the floats next to both; then ranges of bits.
std::vector<float> telling_values(const Model& model) {
  std::vector<float> values;
  const auto add_around = [&values](float value) {
    for (const float each : {value, std::nextafter(value, 0.0F), std::nextafter(value, INFINITY)}) {
      values.push_back(each);
      values.push_back(-each);
    }
  };
  const std::uint32_t infinity = model.exponent_mask() << model.mantissa_bits;
  for (std::uint32_t bits = 0; bits < infinity; ++bits) {
    const double value = model.value(bits);
    const double next = bits + 1 == infinity ? std::ldexp(1.0, model.bias() + 1) : model.value(bits + 1);
    add_around(static_cast<float>(value));
    add_around(static_cast<float>((value + next) / 2));
  }
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 65'521) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (const std::uint32_t bits : {0x7F80'0000U, 0xFF80'0000U, 0x7F80'0001U, 0x7FC0'0000U, 0xFFFF'FFFFU, 0x7F7F'FFFFU,
                                   0x0000'0001U, 0x8000'0001U, 0x007F'FFFFU, 0x7F80'2000U, 0x7F80'1FFFU}) {
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

TEST(Convert, EveryPatternWidensToItsValue) {
  std::vector<std::uint16_t> patterns(65'536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  for (const Model& model : kModels) {
    for_each_place([&](Place& place) {
      std::vector<float> values(patterns.size());
      from_16bit(place, patterns, model.format, values);
      for (std::uint32_t bits = 0; bits < 65'536; ++bits) {
        const auto found = std::bit_cast<std::uint32_t>(values[bits]);
        if (model.is_special(bits)) {
          const std::uint32_t mantissa = bits & ((1U << model.mantissa_bits) - 1);
          const std::uint32_t quiet = mantissa == 0 ? 0 : 0x0040'0000U;
          ASSERT_EQ(found, (bits & 0x8000U) << 16 | 0x7F80'0000U | mantissa << (23 - model.mantissa_bits) | quiet);
        } else {
          const auto expected = static_cast<float>(model.value(bits));
          ASSERT_EQ(found, std::bit_cast<std::uint32_t>(expected)) << std::hex << bits;
        }
      }
    });
  }
}

TEST(Convert, NarrowsToTheNearestTiesToEven) {
  for (const Model& model : kModels) {
    const auto values = telling_values(model);
    std::vector<std::uint16_t> expected;
    for (const float value : values) expected.push_back(static_cast<std::uint16_t>(model.nearest(value)));
    for_each_place([&](Place& place) {
      std::vector<std::uint16_t> narrowed(values.size());
      Status status;
      to_16bit(place, values, model.format, narrowed, view_of(status));
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(narrowed[i], expected[i]) << format_name(model.format) << " of " << std::hexfloat << values[i];
      }
      EXPECT_EQ(status.nonfinite, 1U);
    });
  }
}

TEST(Convert, AllSizesStayInsideTheirViews) {
  for (const Model& model : kModels) {
    for_each_place([&](Place& place) {
      for (const std::size_t n : test::awkward_sizes()) {
        const auto values = test::normal_values(n, n);
        Guarded<std::uint16_t> narrowed(n, 1 + n % 15);
        Guarded<float> widened(n, 3);
        Guarded<float> rounded(values, 7);
        Guarded<float> errors(n, 9);
        Status status;
        to_16bit(place, values, model.format, narrowed.view(), view_of(status));
        from_16bit(place, narrowed.view(), model.format, widened.view());
        round_through_16bit(place, model.format, rounded.view(), errors.view(), view_of(status));
        EXPECT_EQ(rounded.values(), widened.values()) << n;
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(errors.view()[i] + rounded.view()[i], values[i]);
        }
        EXPECT_EQ(status.nonfinite, 0U);
        EXPECT_TRUE(narrowed.intact() && widened.intact() && rounded.intact() && errors.intact());
      }
    });
  }
}

TEST(Convert, RoundingErrorIsExact) {
  for (const Model& model : kModels) {
    auto values = telling_values(model);
    const float most = model.format == ValueFormat::f16 ? 65'519.0F : 0x1.FEp127F;
    std::erase_if(values, [&](float value) { return !(std::fabs(value) <= most); });
    for_each_place([&](Place& place) {
      auto rounded = values;
      std::vector<float> errors(values.size());
      Status status;
      round_through_16bit(place, model.format, rounded, errors, view_of(status));
      EXPECT_EQ(status.nonfinite, 0U);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(static_cast<double>(rounded[i]) + static_cast<double>(errors[i]), static_cast<double>(values[i]));
      }
    });
  }
}

TEST(Convert, OnlyWhatOverflowsIsFlagged) {
  struct Case {
    ValueFormat format;
    float value;
    std::uint32_t nonfinite;
  };
  const Case cases[] = {
      {ValueFormat::f16, 65'504.0F, 0},    {ValueFormat::f16, 65'519.996F, 0},  {ValueFormat::f16, 65'520.0F, 1},
      {ValueFormat::f16, -1e30F, 1},       {ValueFormat::bf16, 0x1.FEp127F, 0}, {ValueFormat::bf16, 0x1.FEFFFEp127F, 0},
      {ValueFormat::bf16, 0x1.FFp127F, 1}, {ValueFormat::bf16, NAN, 1},         {ValueFormat::f16, -INFINITY, 1},
      {ValueFormat::f16, 0x1p-149F, 0},
  };
  for_each_place([&](Place& place) {
    for (const Case& each : cases) {
      for (const std::size_t n : {1U, 16U, 35U}) {
        for (std::size_t i = 0; i < n; ++i) {
          std::vector<float> values(n, 1.0F);
          values[i] = each.value;
          std::vector<std::uint16_t> out(n);
          Status narrowed;
          to_16bit(place, values, each.format, out, view_of(narrowed));
          EXPECT_EQ(narrowed.nonfinite, each.nonfinite) << each.value;
          std::vector<float> errors(n);
          Status rounded;
          round_through_16bit(place, each.format, values, errors, view_of(rounded));
          EXPECT_EQ(rounded.nonfinite, each.nonfinite) << each.value;
        }
      }
    }
  });
}

TEST(Convert, RefusesThirtyTwoBitsAndWrongSizes) {
  Place place({.threads = 1});
  std::vector<float> values(4);
  std::vector<std::uint16_t> out(4);
  std::vector<std::uint16_t> longer(5);
  Status status;
  const auto text =
      test::message_of<InvalidConfig>([&] { to_16bit(place, values, ValueFormat::f32, out, view_of(status)); });
  EXPECT_TRUE(test::contains(text, "must be f16 or bf16 here, got f32")) << text;
  EXPECT_THROW(to_16bit(place, values, ValueFormat::f16, longer, view_of(status)), InvalidConfig);
}

}  // namespace
}  // namespace laconic
