#include "kernels/regtopk/regularizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "kernels/topk_data.h"
#include "laconic/error.h"

namespace laconic {
namespace {

using test::Kind;
using test::Selected;

struct Support {
  std::vector<std::uint32_t> indices;
  std::vector<float> corrected;
  std::vector<float> aggregate;
  LastSupport view() const { return {indices, corrected, aggregate}; }
};

/// Every `stride`-th entry, with remembered values of all sizes, some zero.
Support make_support(std::size_t n, std::size_t stride, std::uint64_t seed) {
  Support support;
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  for (std::size_t i = stride / 2; i < n; i += 1 + engine() % (2 * stride - 1)) {
    support.indices.push_back(static_cast<std::uint32_t>(i));
    support.corrected.push_back(i % 11 == 0 ? 0.0F : normal(engine));
    support.aggregate.push_back(i % 13 == 0 ? 0.0F : normal(engine) * 5.0F);
  }
  return support;
}

Selected run(Place& place, const std::vector<float>& gradient, const std::vector<float>& residual,
             const Support& support, const RegtopkScore& score, std::size_t k, float guess = 0.0F) {
  Selected result{residual, std::vector<std::uint32_t>(k), std::vector<float>(k), {}};
  result.status.threshold = guess;
  error_feedback_regtopk(place, gradient, result.rest, result.rest, support.view(), score,
                         {result.indices, result.values}, view_of(result.status));
  return result;
}

/// The page's formula on every entry (Q = 1e8 outside the support), then a full sort.
Selected by_formula(const std::vector<float>& gradient, const std::vector<float>& residual, const Support& support,
                    const RegtopkScore& score, std::size_t k) {
  const std::size_t n = gradient.size();
  Selected result{std::vector<float>(n), std::vector<std::uint32_t>(n), {}, {}};
  std::vector<double> distortion(n, 1e8);
  for (std::size_t i = 0; i < n; ++i) {
    result.rest[i] = residual[i] == 0.0F ? gradient[i] : gradient[i] + residual[i];  // a zero changes no bit
  }
  for (std::size_t i = 0; i < support.indices.size(); ++i) {
    const std::uint32_t at = support.indices[i];
    const double previous = support.corrected[i];
    const double divisor = score.denominator == Denominator::previous ? previous : static_cast<double>(result.rest[at]);
    if (divisor == 0.0) continue;
    distortion[at] = (support.aggregate[i] - double{score.weight} * previous) / (double{score.weight} * divisor);
  }
  std::vector<float> scores(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto argument = static_cast<float>(std::abs(1.0 + distortion[i]) / score.mu);
    scores[i] = std::abs(result.rest[i]) * regularizer_tanh(argument);
  }
  std::iota(result.indices.begin(), result.indices.end(), 0U);
  std::stable_sort(result.indices.begin(), result.indices.end(),
                   [&](std::uint32_t left, std::uint32_t right) { return scores[left] > scores[right]; });
  result.indices.resize(k);
  if (k > 0) result.status.threshold = scores[result.indices.back()];
  std::sort(result.indices.begin(), result.indices.end());
  for (const std::uint32_t index : result.indices) result.values.push_back(std::exchange(result.rest[index], 0.0F));
  result.status.count = k;
  return result;
}

TEST(Regtopk, FollowsThePageOnEveryKind) {
  const auto places = test::all_places();
  for (const Kind& kind : test::data_kinds()) {
    for (const std::size_t n : {std::size_t{17}, std::size_t{1500}, std::size_t{40'009}}) {
      const auto gradient = values_of(kind, n, 21);
      const auto residual = values_of(kind, n, 22);
      const std::size_t stride = n == 1500 ? 2 : 60;
      const Support support = make_support(n, stride, n);
      for (const auto denominator : {Denominator::previous, Denominator::current}) {
        const RegtopkScore score{.mu = 4.0F, .weight = 0.25F, .denominator = denominator};
        for (const std::size_t k : {std::size_t{0}, std::size_t{1}, n / 50, n / 3, n}) {
          const Selected want = by_formula(gradient, residual, support, score, k);
          for (const auto& [name, place] : places) {
            if (n > 40'000 && place->threads() == 2) continue;
            for (const float guess : test::guesses_of(want.status.threshold, *place)) {
              const Selected got = run(*place, gradient, residual, support, score, k, guess);
              ASSERT_EQ(difference(got, want), "")
                  << name << ", " << kind.name << ", n " << n << ", k " << k << ", guess " << guess;
            }
          }
        }
      }
    }
  }
}

TEST(Regtopk, ASupportThatHoldsEverythingLargeIsStillExact) {
  // The scores of all that is largest drop almost to zero: the bound from magnitudes alone would be far too high.
  const std::size_t n = 200'003;
  const auto gradient = test::normal_values(n, 23);
  const std::vector<float> residual(n, 0.0F);
  Support support;
  for (std::size_t i = 0; i < n; ++i) {
    if (std::abs(gradient[i]) < 1.8F) continue;
    support.indices.push_back(static_cast<std::uint32_t>(i));
    support.corrected.push_back(1.0F);
    support.aggregate.push_back(0.001F);
  }
  const auto places = test::all_places();
  for (const auto denominator : {Denominator::previous, Denominator::current}) {
    const RegtopkScore score{.mu = 4.0F, .weight = 1.0F, .denominator = denominator};
    const Selected want = by_formula(gradient, residual, support, score, n / 100);
    for (const auto& [name, place] : places) {
      for (const float guess : test::guesses_of(want.status.threshold, *place)) {
        const Selected got = run(*place, gradient, residual, support, score, n / 100, guess);
        ASSERT_EQ(difference(got, want), "") << name << ", guess " << guess;
      }
    }
  }
}

TEST(Regtopk, FollowsItsOwnSupportFromStepToStep) {
  const std::size_t n = 300'007;
  const std::size_t k = n / 100;
  const auto places = test::all_places();
  auto residual = test::normal_values(n, 24);
  Support support;
  float guess = 0.0F;
  for (int step = 0; step < 4; ++step) {
    const auto gradient = test::normal_values(n, 25 + static_cast<std::uint64_t>(step));
    const RegtopkScore score{.mu = 2.0F, .weight = 0.5F};
    const Selected want = by_formula(gradient, residual, support, score, k);
    for (const auto& [name, place] : places) {
      const Selected got = run(*place, gradient, residual, support, score, k, guess);
      ASSERT_EQ(difference(got, want), "") << name << ", step " << step;
    }
    residual = want.rest;
    guess = want.status.threshold;
    support = {want.indices, want.values, want.values};
    for (std::size_t i = 0; i < k; ++i) support.aggregate[i] *= i % 3 == 0 ? 0.1F : 0.9F;
  }
}

TEST(Regtopk, AnEmptySupportIsTopk) {
  const std::size_t n = 30'000;
  const auto gradient = test::normal_values(n, 28);
  const auto residual = test::normal_values(n, 29);
  for (const auto& [name, place] : test::all_places()) {
    const Selected got = run(*place, gradient, residual, {}, {}, 300);
    Selected want{residual, std::vector<std::uint32_t>(300), std::vector<float>(300), {}};
    error_feedback_topk(*place, gradient, want.rest, want.rest, {want.indices, want.values}, view_of(want.status));
    EXPECT_EQ(difference(got, want), "") << name;
  }
}

TEST(Regtopk, EveryScopeOfAListIsSelectedFromAlone) {
  const test::ScopedData data = test::scoped_data("", {40, 9'000, 3, 20'000, 1'000}, 0.05, 2);
  const RegtopkScore score{.mu = 2.0F, .weight = 0.5F, .denominator = Denominator::previous};
  Support all;
  Selected want{std::vector<float>(data.gradient.size(), 7.0F), {}, {}, {}};
  std::vector<float> thresholds;
  for (const Scope& scope : data.scopes) {
    const auto begin = static_cast<std::ptrdiff_t>(scope.offset);
    const auto end = static_cast<std::ptrdiff_t>(scope.offset + scope.size);
    Support support;
    for (std::uint64_t i = 0; i < scope.count; ++i) {
      support.indices.push_back(static_cast<std::uint32_t>(i * scope.size / scope.count));
      support.corrected.push_back(i % 3 == 0 ? 0.0F : 1.0F);
      support.aggregate.push_back(0.25F * static_cast<float>(i % 5));
    }
    const Selected own = by_formula({data.gradient.begin() + begin, data.gradient.begin() + end},
                                    {data.residual.begin() + begin, data.residual.begin() + end}, support, score,
                                    scope.count);
    for (const std::uint32_t index : own.indices) {
      want.indices.push_back(index + static_cast<std::uint32_t>(scope.offset));
    }
    want.values.insert(want.values.end(), own.values.begin(), own.values.end());
    std::copy(own.rest.begin(), own.rest.end(), want.rest.begin() + begin);
    thresholds.push_back(own.status.threshold);
    all.indices.insert(all.indices.end(), support.indices.begin(), support.indices.end());
    all.corrected.insert(all.corrected.end(), support.corrected.begin(), support.corrected.end());
    all.aggregate.insert(all.aggregate.end(), support.aggregate.begin(), support.aggregate.end());
  }
  want.status.count = data.selected;
  for (const auto& [name, place] : test::all_places()) {
    const std::vector<float> last(thresholds.size());
    std::vector<float> next(thresholds.size());
    Selected got{std::vector<float>(data.gradient.size(), 7.0F), std::vector<std::uint32_t>(data.selected),
                 std::vector<float>(data.selected), {}};
    error_feedback_regtopk_by_scope(*place, data.gradient, data.residual, got.rest, data.scopes, {last, next},
                                    all.view(), score, {got.indices, got.values}, view_of(got.status));
    got.status.threshold = 0.0F;
    EXPECT_EQ(difference(got, want), "") << name;
    EXPECT_TRUE(test::same_bits(next, thresholds)) << name;
  }
}

TEST(Regtopk, NonfiniteValuesAndMemoryStayInBounds) {
  const std::size_t n = 40'000;
  const auto residual = test::normal_values(n, 30);
  Support support = make_support(n, 3, 32);
  support.aggregate[100] = std::numeric_limits<float>::infinity();
  support.corrected[200] = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [name, place] : test::all_places()) {
    auto gradient = test::normal_values(n, 31);
    EXPECT_EQ(run(*place, gradient, residual, support, {}, 400).status.nonfinite, 0U)
        << name << ": a regularizer is never a NaN";
    gradient[support.indices[300]] = std::numeric_limits<float>::infinity();
    const Selected got = run(*place, gradient, residual, support, {}, 400);
    EXPECT_EQ(got.status.nonfinite, 1U) << name;
    for (const std::uint32_t index : got.indices) ASSERT_LT(index, n);
  }
}

TEST(Regtopk, NoAllocationAfterTheFirstCall) {
  const std::size_t n = 200'000;
  const auto gradient = test::normal_values(n, 33);
  const Support support = make_support(n, 50, 35);
  std::vector<std::uint32_t> indices(2000);
  std::vector<float> values(2000);
  for (const auto& [name, place] : test::all_places()) {
    auto residual = test::normal_values(n, 34);
    Status status;
    std::uint64_t before = 0;
    for (int step = 0; step < 3; ++step) {
      if (step == 1) before = test::allocation_count();
      error_feedback_regtopk(*place, gradient, residual, residual, support.view(), {}, {indices, values},
                             view_of(status));
    }
    EXPECT_EQ(test::allocation_count(), before) << name;
  }
}

TEST(Regtopk, TinyMuIsTopkOnValuesThatWereAggregated) {
  Place place({.threads = 1});
  const std::size_t n = 5000;
  const auto gradient = test::normal_values(n, 36);
  Support support = make_support(n, 4, 37);
  for (float& value : support.aggregate) value = 1.0F;
  const Selected got = run(place, gradient, gradient, support, {.mu = 1e-6F}, 50);
  const Selected want = run(place, gradient, gradient, {}, {}, 50);
  EXPECT_EQ(difference(got, want), "");
}

TEST(Regtopk, TanhIsWithinOneUnitInTheLastPlace) {
  float largest_so_far = 0.0F;
  for (std::uint32_t bits = 0; bits < 0x4180'0000U; bits += 997) {  // 0 .. 16
    const float x = std::bit_cast<float>(bits);
    const float got = regularizer_tanh(x);
    const auto want = static_cast<float>(std::tanh(static_cast<double>(x)));
    const auto apart =
        static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(got)) - std::bit_cast<std::uint32_t>(want);
    ASSERT_LE(std::abs(apart), 1) << "tanh(" << x << ") = " << want << ", got " << got;
    ASSERT_LE(got, 1.0F);
    ASSERT_GE(got, largest_so_far * (1.0F - 2e-7F)) << x;
    largest_so_far = std::max(largest_so_far, got);
  }
  EXPECT_EQ(regularizer_tanh(10.0F), 1.0F);
  EXPECT_EQ(regularizer_tanh(1e30F), 1.0F);
  EXPECT_EQ(regularizer_tanh(std::numeric_limits<float>::infinity()), 1.0F);
}

TEST(Regtopk, BadCallsNameValueRangeAndRemedy) {
  Place place({.threads = 1});
  std::vector<float> values(10);
  Support support = make_support(10, 2, 38);
  const auto message = [&](const RegtopkScore& score) {
    return test::message_of<InvalidConfig>([&] { run(place, values, values, support, score, 1); });
  };
  EXPECT_TRUE(test::contains(message({.mu = 0.0F}), "mu must be finite and above 0, got 0"));
  EXPECT_TRUE(test::contains(message({.mu = 1.0F, .weight = -1.0F}), "weight must be finite and above 0, got -1"));
  support.aggregate.pop_back();
  EXPECT_TRUE(test::contains(message({}), "last.aggregate has"));
}

}  // namespace
}  // namespace laconic
