#include "kernels/coded/coded.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/topk_data.h"
#include "laconic/error.h"
#include "support/places.h"

namespace laconic {
namespace {

/// Entries of a list and the scopes that they lie in.
struct Case {
  std::string name;
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  std::vector<std::uint32_t> starts;  ///< empty: scopes of `each` entries
  std::uint32_t each = 0xFFFF'FFFF;

  ScopeCuts cuts() const { return {.each = each, .starts = starts}; }
  ScopeSpan span() const { return cuts().of(0, std::uint64_t{indices.back()} + 1); }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const test::Kind& kind : test::data_kinds()) {
    for (const std::size_t n : {1UL, 33UL, 5'000UL, 100'003UL}) {
      Case made{kind.name, {}, test::values_of(kind, n, n), {}};
      for (std::uint32_t i = 0; i < n; ++i) made.indices.push_back(3 * i + i % 3);
      made.name += " " + std::to_string(n) + ", one scope";
      all.push_back(made);
      made.name += "s of 100";
      made.each = 100;
      all.push_back(made);
      made.name += ", tensors";
      made.starts = {0, 1, 2, 50, 51, 3'000, 20'000};
      all.push_back(made);
    }
  }
  return all;
}

struct Coded {
  std::vector<float> values;
  std::vector<float> errors;
  Status status;
};

Coded coded(Place& place, ValueFormat format, const Case& given) {
  Coded result{given.values, std::vector<float>(given.values.size()), {}};
  std::vector<std::uint32_t> indices = given.indices;
  code_values(place, format, given.cuts(), given.span(), {indices, result.values}, result.errors,
              view_of(result.status));
  return result;
}

/// The definition in long double, with the mean that float32 has.
struct Model {
  long double sum = 0;
  long double count = 0;
  float largest = 0.0F;
  float mean() const { return count == 0 ? 0.0F : static_cast<float>(sum / count); }
  void add(float value) {
    sum += std::abs(value);
    count += 1;
    largest = std::max(largest, std::abs(value));
  }
};

TEST(Coded, EqualsItsDefinitionInEveryScope) {
  Place place({.threads = 2});
  for (const Case& given : cases()) {
    for (const auto format : {ValueFormat::sign, ValueFormat::two}) {
      const Coded got = coded(place, format, given);
      std::vector<Model> all(given.span().count);
      std::vector<Model> low(all.size());
      std::vector<Model> high(all.size());
      const auto scope_at = [&](std::size_t i) { return given.cuts().number_of(given.indices[i]); };
      for (std::size_t i = 0; i < given.values.size(); ++i) all[scope_at(i)].add(given.values[i]);
      for (std::size_t i = 0; i < given.values.size(); ++i) {
        const bool above = std::abs(given.values[i]) > all[scope_at(i)].mean();
        (above ? high : low)[scope_at(i)].add(given.values[i]);
      }
      for (std::size_t i = 0; i < given.values.size(); ++i) {
        const std::size_t scope = scope_at(i);
        const bool above = std::abs(given.values[i]) > all[scope].mean();
        const float expected = format == ValueFormat::sign ? all[scope].mean() : (above ? high : low)[scope].mean();
        const float unit = std::ldexp(all[scope].largest, -40);  // magnitudes are summed in fixed point
        ASSERT_NEAR(std::abs(got.values[i]), expected, 1e-6F * expected + unit) << given.name << " entry " << i;
        ASSERT_EQ(std::signbit(got.values[i]), given.values[i] < 0.0F) << given.name << " entry " << i;
        ASSERT_EQ(got.errors[i], given.values[i] - got.values[i]) << given.name << " entry " << i;
      }
      EXPECT_EQ(got.status.nonfinite, 0U);
    }
  }
}

TEST(Coded, EveryPlaceGivesTheSameBits) {
  Place reference({.threads = 1, .simd = SimdLevel::reference});
  for (const Case& given : cases()) {
    for (const auto format : {ValueFormat::sign, ValueFormat::two}) {
      const Coded want = coded(reference, format, given);
      test::for_each_place([&](Place& place) {
        const Coded got = coded(place, format, given);
        ASSERT_TRUE(test::same_bits(got.values, want.values) && test::same_bits(got.errors, want.errors)) << given.name;
      });
    }
  }
}

TEST(Coded, TiesEmptyGroupsAndZeros) {
  Place place({.threads = 1});
  // Equal magnitudes: their mean is exact, none is above it, and nothing is left.
  const Case equal{"equal", {0, 1, 2}, {0.3F, -0.3F, 0.3F}, {}};
  EXPECT_EQ(coded(place, ValueFormat::sign, equal).values, equal.values);
  EXPECT_EQ(coded(place, ValueFormat::two, equal).values, equal.values);
  // The mean is 2: the entry at it belongs to the lower group, whose mean is 1.5.
  const Case at_mean{"at the mean", {0, 1, 2}, {1.0F, -2.0F, 3.0F}, {}};
  EXPECT_EQ(coded(place, ValueFormat::two, at_mean).values, (std::vector<float>{1.5F, -1.5F, 3.0F}));
  EXPECT_EQ(coded(place, ValueFormat::sign, at_mean).values, (std::vector<float>{2.0F, -2.0F, 2.0F}));
  EXPECT_EQ(coded(place, ValueFormat::sign, at_mean).errors, (std::vector<float>{-1.0F, 0.0F, 1.0F}));
  // Zeros of either sign are plus.
  const Case zeros{"zeros", {0, 1, 2}, {0.0F, -0.0F, -3.0F}, {}};
  EXPECT_EQ(coded(place, ValueFormat::sign, zeros).values, (std::vector<float>{1.0F, 1.0F, -1.0F}));
  EXPECT_EQ(coded(place, ValueFormat::two, zeros).values, (std::vector<float>{0.0F, 0.0F, -3.0F}));
}

TEST(Coded, ANonfiniteScopeBecomesZerosAndTheOthersStay) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    test::for_each_place([&](Place& place) {
      const Case given{"bad", {0, 5, 10, 11}, {1.0F, bad, 2.0F, -4.0F}, {}, 10};
      for (const auto format : {ValueFormat::sign, ValueFormat::two}) {
        const Coded got = coded(place, format, given);
        EXPECT_EQ(got.status.nonfinite, 1U);
        EXPECT_EQ(got.values[0], 0.0F);
        EXPECT_EQ(got.values[3], format == ValueFormat::sign ? -3.0F : -4.0F);
      }
    });
  }
}

TEST(Coded, FieldsAndMagnitudesGiveTheValuesBack) {
  test::for_each_place([&](Place& place) {
    for (const Case& given : cases()) {
      for (const auto format : {ValueFormat::sign, ValueFormat::two}) {
        const Coded sent = coded(place, format, given);
        std::vector<float> magnitudes(given.span().count * magnitudes_of(format), 77.0F);
        std::vector<std::uint32_t> fields(given.indices.size());
        Status status;
        coded_fields(place, format, given.cuts(), given.span(), {given.indices, sent.values}, magnitudes, fields,
                     view_of(status));
        for (const std::uint32_t field : fields) ASSERT_LT(field, 1U << field_bits(format));
        for (const float magnitude : magnitudes) ASSERT_TRUE(magnitude >= 0.0F && std::isfinite(magnitude));
        std::vector<float> values(sent.values.size());
        coded_values(place, format, given.cuts(), given.span(), given.indices, fields, magnitudes, values);
        ASSERT_TRUE(test::same_bits(values, sent.values)) << given.name;
      }
    }
  });
}

TEST(Coded, ValuesThatNoMagnitudeDescribesAreRefused) {
  Place place({.threads = 1});
  const std::vector<std::uint32_t> indices{0, 1, 2};
  const std::vector<float> values{1.0F, -2.0F, 3.0F};
  std::vector<std::uint32_t> fields(3);
  Status status;
  for (const auto format : {ValueFormat::sign, ValueFormat::two}) {
    std::vector<float> magnitudes(magnitudes_of(format));
    const auto text = test::message_of<InvalidConfig>([&] {
      coded_fields(place, format, {}, {0, 1}, {indices, values}, magnitudes, fields, view_of(status));
    });
    EXPECT_TRUE(test::contains(text, format_name(format)) && test::contains(text, "magnitude")) << text;
    EXPECT_TRUE(test::contains(text, format == ValueFormat::sign ? "entry 0" : "entry 1")) << text;
  }
  std::vector<float> copy = values;
  std::vector<std::uint32_t> own = indices;
  std::vector<float> errors(3);
  EXPECT_THROW(code_values(place, ValueFormat::f16, {}, {0, 1}, {own, copy}, errors, view_of(status)), InvalidConfig);
}

}  // namespace
}  // namespace laconic
