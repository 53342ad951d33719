#include "kernels/topk/topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/topk/sample.h"
#include "kernels/topk_data.h"
#include "laconic/error.h"

namespace laconic {
namespace {

using test::Kind;
using test::Selected;

Selected run(Place& place, const std::vector<float>& gradient, const std::vector<float>& residual, std::size_t k,
             float guess = 0.0F) {
  Selected result{std::vector<float>(gradient.size()), std::vector<std::uint32_t>(k), std::vector<float>(k), {}};
  result.status.threshold = guess;
  error_feedback_topk(place, gradient, residual, result.rest, {result.indices, result.values}, view_of(result.status));
  return result;
}

/// The definition, by a full sort: independent of the library's reference.
Selected by_sorting(const std::vector<float>& gradient, const std::vector<float>& residual, std::size_t k) {
  const std::size_t n = gradient.size();
  Selected result{std::vector<float>(n), std::vector<std::uint32_t>(n), {}, {}};
  for (std::size_t i = 0; i < n; ++i) {
    result.rest[i] = residual[i] == 0.0F ? gradient[i] : gradient[i] + residual[i];  // a zero changes no bit
  }
  std::iota(result.indices.begin(), result.indices.end(), 0U);
  std::stable_sort(result.indices.begin(), result.indices.end(), [&](std::uint32_t left, std::uint32_t right) {
    return std::abs(result.rest[left]) > std::abs(result.rest[right]);
  });
  result.indices.resize(k);
  if (k > 0) result.status.threshold = std::abs(result.rest[result.indices.back()]);
  std::sort(result.indices.begin(), result.indices.end());
  for (const std::uint32_t index : result.indices) result.values.push_back(std::exchange(result.rest[index], 0.0F));
  result.status.count = k;
  return result;
}

TEST(Topk, EveryKindKeepAndGuessGivesTheSortedAnswer) {
  const auto places = test::all_places();
  for (const Kind& kind : test::data_kinds()) {
    for (const std::size_t n : {std::size_t{900}, std::size_t{35'003}}) {
      const auto gradient = values_of(kind, n, 1);
      const auto residual = values_of(kind, n, 2);
      for (const std::size_t k : test::keeps_of(n)) {
        const Selected want = by_sorting(gradient, residual, k);
        for (const auto& [name, place] : places) {
          for (const float guess : test::guesses_of(want.status.threshold, *place)) {
            const Selected got = run(*place, gradient, residual, k, guess);
            ASSERT_EQ(difference(got, want), "")
                << name << ", " << kind.name << ", n " << n << ", k " << k << ", guess " << guess;
          }
        }
      }
    }
  }
}

TEST(Topk, AwkwardSizesAndMisalignedViewsStayInBounds) {
  const auto places = test::all_places();
  for (const std::size_t n : test::awkward_sizes()) {
    const auto gradient = test::normal_values(n, 3);
    const auto residual = test::normal_values(n, 4);
    const std::size_t k = n == 0 ? 0 : std::max<std::size_t>(1, n / 20);
    const Selected want = by_sorting(gradient, residual, k);
    for (const auto& [name, place] : places) {
      const std::size_t shift = n % 16;
      test::Guarded<float> g(gradient, shift);
      test::Guarded<float> e(residual, shift / 2);
      test::Guarded<std::uint32_t> indices(k, shift);
      test::Guarded<float> values(k, shift + 1);
      Status status;
      error_feedback_topk(*place, g.view(), e.view(), e.view(), {indices.view(), values.view()}, view_of(status));
      ASSERT_EQ(difference({e.values(), indices.values(), values.values(), status}, want), "") << name << ' ' << n;
      EXPECT_TRUE(g.intact() && e.intact() && indices.intact() && values.intact()) << name << ' ' << n;
    }
  }
}

TEST(Topk, ALongViewOfEveryKindColdAndWarm) {
  const std::size_t n = 400'009;  // samples, several blocks a thread, full buffers
  const auto places = test::all_places();
  for (const Kind& kind : test::data_kinds()) {
    const auto gradient = values_of(kind, n, 5);
    const std::vector<float> residual(n, 0.0F);
    const Selected want = by_sorting(gradient, residual, n / 100);
    for (const auto& [name, place] : places) {
      if (place->simd() == SimdLevel::reference && place->threads() > 1) continue;
      for (const float guess : {0.0F, want.status.threshold, 1.25F * want.status.threshold}) {
        const Selected got = run(*place, gradient, residual, n / 100, guess);
        ASSERT_EQ(difference(got, want), "") << name << ", " << kind.name << ", guess " << guess;
      }
    }
  }
}

TEST(Topk, ASampleThatMisleadsCostsRescansButNoExactness) {
  // Large entries lie only where the sample looks, so that it expects eight times as many as there are: too few
  // candidates.
  const std::size_t n = 300'000;
  const std::size_t k = 30'000;
  const std::size_t lines = topk::cold_lines(n);
  const std::vector<float> residual(n, 0.25F);
  auto gradient = test::normal_values(n, 13);
  for (std::uint32_t misled = 1; misled <= 2; ++misled) {  // the first sample, then the one after a miss too
    for (std::size_t line = 0; line < lines; ++line) {
      const std::size_t begin = topk::sampled_at(n, lines, line, misled == 2);
      for (std::size_t i = begin; i < begin + topk::kLine; i += 4) gradient[i] = 1e3F + static_cast<float>(i % 777);
    }
    const Selected want = by_sorting(gradient, residual, k);
    for (const auto& [name, place] : test::all_places()) {
      const bool fast = place->simd() != SimdLevel::reference;
      const Selected got = run(*place, gradient, residual, k);
      ASSERT_EQ(difference(got, want), "") << name << ", misled " << misled;
      EXPECT_EQ(got.status.rescans, fast ? misled : 0U) << name;
    }
  }
}

TEST(Topk, AResidualOfZeroChangesNoBit) {
  const std::size_t n = 5'003;
  auto gradient = test::normal_values(n, 6);
  for (std::size_t i = 0; i < n; i += 3) gradient[i] = -0.0F;
  for (const auto& [name, place] : test::all_places()) {
    for (const std::size_t k : {n, n / 100}) {
      std::vector<float> rest(n);
      std::vector<std::uint32_t> indices(k);
      std::vector<float> values(k);
      Status status;
      for (int step = 0; step < 2; ++step) {  // cold, then warm
        error_feedback_topk(*place, gradient, std::vector<float>(n, 0.0F), rest, {indices, values}, view_of(status));
        for (std::size_t i = 0; i < k; ++i) rest[indices[i]] = values[i];
        ASSERT_TRUE(test::same_bits(rest, gradient)) << name << ", k " << k << ", step " << step;
      }
    }
  }
}

TEST(Topk, SelectedAndRestTogetherAreGradientAndResidual) {
  const std::size_t n = 70'001;
  const auto gradient = test::normal_values(n, 6);
  for (const auto& [name, place] : test::all_places()) {
    auto residual = test::normal_values(n, 7);
    std::vector<std::uint32_t> indices(n / 100);
    std::vector<float> values(n / 100);
    Status status;
    for (int step = 0; step < 5; ++step) {  // warm from the second step on, in place
      std::vector<float> whole(n);
      for (std::size_t i = 0; i < n; ++i) whole[i] = gradient[i] + residual[i];
      error_feedback_topk(*place, gradient, residual, residual, {indices, values}, view_of(status));
      auto sum = residual;
      for (std::size_t i = 0; i < indices.size(); ++i) {
        ASSERT_EQ(residual[indices[i]], 0.0F);
        sum[indices[i]] += values[i];
      }
      ASSERT_TRUE(test::same_bits(sum, whole)) << name << ", step " << step;
    }
  }
}

TEST(Topk, NonfiniteValuesSetTheFlagAndIndicesStayInRange) {
  const std::size_t n = 40'000;
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> zeros(n, 0.0F);
  for (const auto& [name, place] : test::all_places()) {
    for (const float bad : {infinity, -infinity, nan}) {
      for (const std::size_t at : {std::size_t{0}, std::size_t{20'003}, n - 1}) {
        auto gradient = test::normal_values(n, 8);
        gradient[at] = bad;
        const Selected got = run(*place, gradient, zeros, 400, 2.5F);
        EXPECT_EQ(got.status.nonfinite, 1U) << name << ", " << bad << " at " << at;
        for (const std::uint32_t index : got.indices) ASSERT_LT(index, n);
      }
    }
    const std::vector<float> everywhere(n, nan);
    EXPECT_EQ(run(*place, everywhere, everywhere, n / 2).status.nonfinite, 1U) << name;
    const std::vector<float> largest(n, std::numeric_limits<float>::max());
    EXPECT_EQ(run(*place, largest, zeros, 9).status.nonfinite, 0U) << name;
    EXPECT_EQ(run(*place, largest, largest, 9).status.nonfinite, 1U) << name << ": the sum overflows";
  }
}

TEST(Topk, TheFlagIsSticky) {
  for (const auto& [name, place] : test::all_places()) {
    Status status;
    status.nonfinite = 1;
    std::vector<float> values(100, 1.0F);
    std::vector<std::uint32_t> indices(5);
    std::vector<float> chosen(5);
    error_feedback_topk(*place, values, values, values, {indices, chosen}, view_of(status));
    EXPECT_EQ(status.nonfinite, 1U) << name;
    EXPECT_EQ(chosen, std::vector<float>(5, 2.0F)) << name;
  }
}

TEST(Topk, NoAllocationAfterTheFirstCall) {
  const std::size_t n = 200'000;
  const auto gradient = test::normal_values(n, 10);
  std::vector<std::uint32_t> indices(2000);
  std::vector<float> values(2000);
  for (const auto& [name, place] : test::all_places()) {
    auto residual = test::normal_values(n, 11);
    Status status;
    std::uint64_t before = 0;
    for (int step = 0; step < 4; ++step) {
      if (step == 1) before = test::allocation_count();
      if (step == 2) status.threshold = 0.0F;     // cold
      if (step == 3) status.threshold = 1000.0F;  // wrong
      error_feedback_topk(*place, gradient, residual, residual, {indices, values}, view_of(status));
    }
    EXPECT_EQ(test::allocation_count(), before) << name;
  }
}

/// Splits and compares with the sorted answer.
void check_split(Place& place, const std::vector<std::uint32_t>& indices, const std::vector<float>& values,
                 const Selected& want) {
  const std::size_t n = values.size();
  const std::size_t k = want.indices.size();
  test::Guarded<std::uint32_t> kept_indices(k), left_indices(n - k);
  test::Guarded<float> kept_values(k), left_values(n - k);
  split_largest(place, {View<const std::uint32_t>(indices), View<const float>(values)},
                {kept_indices.view(), kept_values.view()}, {left_indices.view(), left_values.view()});
  std::vector<std::uint32_t> want_kept, want_left;
  std::vector<float> want_left_values;
  for (std::size_t i = 0, next = 0; i < n; ++i) {
    const bool keep = next < k && want.indices[next] == i;
    (keep ? want_kept : want_left).push_back(indices[i]);
    if (!keep) want_left_values.push_back(values[i]);
    next += keep ? 1 : 0;
  }
  ASSERT_EQ(kept_indices.values(), want_kept);
  ASSERT_EQ(left_indices.values(), want_left);
  ASSERT_TRUE(test::same_bits(kept_values.values(), want.values));
  ASSERT_TRUE(test::same_bits(left_values.values(), want_left_values));
  ASSERT_TRUE(kept_indices.intact() && left_indices.intact() && kept_values.intact() && left_values.intact());
}

TEST(Topk, SplitLargestKeepsTheLargestInOrder) {
  const auto places = test::all_places();
  for (const Kind& kind : test::data_kinds()) {
    for (const std::size_t n : {0, 1, 15, 16, 17, 1000, 50'001}) {
      const auto values = values_of(kind, n, 12);
      std::vector<std::uint32_t> indices(n);
      for (std::size_t i = 0; i < n; ++i) indices[i] = static_cast<std::uint32_t>(3 * i + i % 2);
      for (const std::size_t k : test::keeps_of(n)) {
        const Selected want = by_sorting(values, std::vector<float>(n, -0.0F), k);
        for (const auto& [name, place] : places) {
          SCOPED_TRACE(name + ", " + kind.name + ", n " + std::to_string(n) + ", k " + std::to_string(k));
          ASSERT_NO_FATAL_FAILURE(check_split(*place, indices, values, want));
        }
      }
    }
  }
}

TEST(Topk, BadCallsNameValueRangeAndRemedy) {
  Place place({.threads = 1});
  std::vector<float> ten(10), eleven(11);
  std::vector<std::uint32_t> indices(11);
  Status status;
  const auto message = [&](View<float> residual, View<float> rest, SparseView selected) {
    return test::message_of<InvalidConfig>(
        [&] { error_feedback_topk(place, ten, residual, rest, selected, view_of(status)); });
  };
  const View<std::uint32_t> eleven_indices(indices);
  EXPECT_TRUE(test::contains(message(eleven, ten, {}), "residual has 11 entries, expected 10"));
  EXPECT_TRUE(test::contains(message(ten, eleven, {}), "rest has 11 entries, expected 10"));
  EXPECT_TRUE(test::contains(message(ten, ten, {eleven_indices, eleven}), "selected has 11 entries, expected 0..10"));
  EXPECT_TRUE(
      test::contains(message(ten, ten, {eleven_indices.sub(0, 3), View<float>(ten).sub(0, 2)}), "selected.values"));
  EXPECT_TRUE(test::contains(message(View<float>(ten.data(), 10, Device::cuda), ten, {}), "residual"));
  EXPECT_TRUE(test::contains(test::message_of<InvalidConfig>([&] {
                               const View<float> huge(ten.data(), kMostSparseEntries + 1);
                               error_feedback_topk(place, huge, huge, huge, {}, view_of(status));
                             }),
                             "at most 4294967295"));
  EXPECT_TRUE(test::contains(test::message_of<InvalidConfig>([&] {
                               const SparseView entries{eleven_indices.sub(0, 4), View<float>(ten).sub(0, 4)};
                               split_largest(place, entries, {eleven_indices, eleven}, {});
                             }),
                             "kept has 11 entries, expected 0..4"));
}

// ---- a list of scopes

Selected in_scopes_by_sorting(const test::ScopedData& data, std::vector<float>& thresholds) {
  Selected all{std::vector<float>(data.gradient.size(), 7.0F), {}, {}, {}};
  for (const Scope& scope : data.scopes) {
    const auto begin = static_cast<std::ptrdiff_t>(scope.offset);
    const auto end = static_cast<std::ptrdiff_t>(scope.offset + scope.size);
    const Selected own = by_sorting({data.gradient.begin() + begin, data.gradient.begin() + end},
                                    {data.residual.begin() + begin, data.residual.begin() + end}, scope.count);
    for (const std::uint32_t index : own.indices) {
      all.indices.push_back(index + static_cast<std::uint32_t>(scope.offset));
    }
    all.values.insert(all.values.end(), own.values.begin(), own.values.end());
    std::copy(own.rest.begin(), own.rest.end(), all.rest.begin() + begin);
    thresholds.push_back(own.status.threshold);
  }
  all.status.count = data.selected;
  return all;
}

TEST(TopkInScopes, EachGivesTheSortedAnswerAndItsThreshold) {
  const auto places = test::all_places();
  for (const test::ScopedData& data : test::data_in_scopes()) {
    std::vector<float> thresholds;
    const Selected want = in_scopes_by_sorting(data, thresholds);
    for (const auto& [name, place] : places) {
      for (const bool cold : {true, false}) {
        const std::vector<float> last =
            cold ? std::vector<float>(thresholds.size()) : test::guesses_in_scopes(thresholds);
        std::vector<float> next(thresholds.size());
        Selected got{std::vector<float>(data.gradient.size(), 7.0F), std::vector<std::uint32_t>(data.selected),
                     std::vector<float>(data.selected), {}};
        error_feedback_topk_by_scope(*place, data.gradient, data.residual, got.rest, data.scopes, {last, next},
                                     {got.indices, got.values}, view_of(got.status));
        got.status.threshold = 0.0F;
        ASSERT_EQ(difference(got, want), "") << name << ", " << data.name;
        ASSERT_TRUE(test::same_bits(next, thresholds)) << name << ", " << data.name;
      }
    }
  }
}

TEST(TopkInScopes, BadCallsNameValueRangeAndRemedy) {
  Place place({.threads = 1});
  std::vector<float> ten(10), one(1);
  std::vector<std::uint32_t> indices(4);
  Status status;
  const auto message = [&](const Scope& scope, View<float> thresholds, std::size_t selected) {
    return test::message_of<InvalidConfig>([&] {
      const SparseView entries{View<std::uint32_t>(indices).sub(0, selected), View<float>(ten).sub(0, selected)};
      error_feedback_topk_by_scope(place, ten, ten, ten, {&scope, 1}, {thresholds, thresholds}, entries,
                                   view_of(status));
    });
  };
  EXPECT_TRUE(test::contains(message({0, 0, 10, 0, 2}, ten, 2), "thresholds.last has 10 entries, expected 1"));
  EXPECT_TRUE(test::contains(message({0, 0, 10, 0, 2}, one, 3), "selected has 3 entries, expected 2"));
  EXPECT_TRUE(test::contains(message({0, 0, 3, 0, 4}, one, 4), "a scope's selection has 4 entries, expected 0..3"));
}

// ---- fixed scopes

FixedScopes scopes_of(std::size_t n, std::size_t each, double keep) {
  const auto kept = [&](std::size_t size) {
    return std::max<std::size_t>(1, static_cast<std::size_t>(keep * static_cast<double>(size)));
  };
  return {each, kept(each), kept(n % each == 0 ? each : n % each)};
}

Selected run_scopes(Place& place, const std::vector<float>& gradient, const std::vector<float>& residual,
                    const FixedScopes& scopes) {
  const std::size_t k = scopes.selected(gradient.size());
  Selected result{std::vector<float>(gradient.size()), std::vector<std::uint32_t>(k), std::vector<float>(k), {}};
  error_feedback_topk_by_scope(place, gradient, residual, result.rest, scopes, {result.indices, result.values},
                               view_of(result.status));
  return result;
}

Selected scopes_by_sorting(const std::vector<float>& gradient, const std::vector<float>& residual,
                           const FixedScopes& scopes) {
  Selected all{};
  const auto n = static_cast<std::ptrdiff_t>(gradient.size());
  const auto each = static_cast<std::ptrdiff_t>(scopes.each);
  for (std::ptrdiff_t begin = 0; begin < n; begin += each) {
    const std::ptrdiff_t end = std::min(begin + each, n);
    const std::size_t k = scopes.keep_of(static_cast<std::uint64_t>(begin / each), gradient.size());
    const Selected own =
        by_sorting({gradient.begin() + begin, gradient.begin() + end}, {residual.begin() + begin, residual.begin() + end}, k);
    for (const std::uint32_t index : own.indices) all.indices.push_back(index + static_cast<std::uint32_t>(begin));
    all.values.insert(all.values.end(), own.values.begin(), own.values.end());
    all.rest.insert(all.rest.end(), own.rest.begin(), own.rest.end());
  }
  all.status.count = all.indices.size();
  return all;
}

TEST(TopkByScope, EveryKindKeepAndScopeGivesTheSortedAnswer) {
  const auto places = test::all_places();
  for (const Kind& kind : test::data_kinds()) {
    for (const std::size_t n : {std::size_t{900}, std::size_t{70'003}}) {
      const auto gradient = values_of(kind, n, 1);
      const auto residual = values_of(kind, n, 2);
      for (const std::size_t each : {64UL, 100UL, 4096UL, 5000UL, 65'536UL}) {
        for (const double keep : {1e-9, 1.0 / 64, 0.5, 1.0}) {
          const FixedScopes scopes = scopes_of(n, each, keep);
          const Selected want = scopes_by_sorting(gradient, residual, scopes);
          for (const auto& [name, place] : places) {
            const Selected got = run_scopes(*place, gradient, residual, scopes);
            ASSERT_EQ(difference(got, want), "")
                << name << ", " << kind.name << ", n " << n << ", each " << each << ", keep " << keep;
          }
        }
      }
    }
  }
}

// The second scope has fewer candidates than it keeps: the scan has set some to zero, which the next one must see.
TEST(TopkByScope, ASecondLookFindsWhatTheFirstSetToZero) {
  const std::size_t each = 4096;
  auto gradient = test::normal_values(3 * each, 5);
  for (std::size_t i = each; i < 2 * each; ++i) gradient[i] *= i % 512 == 0 ? 100.0F : 1e-3F;
  const std::vector<float> residual(gradient.size(), 0.0F);
  const FixedScopes scopes = scopes_of(gradient.size(), each, 1.0 / 64);
  const Selected want = scopes_by_sorting(gradient, residual, scopes);
  for (const auto& [name, place] : test::all_places()) {
    EXPECT_EQ(difference(run_scopes(*place, gradient, residual, scopes), want), "") << name;
  }
}

TEST(TopkByScope, AwkwardSizesAndMisalignedViewsInPlaceStayInBounds) {
  const auto places = test::all_places();
  for (const std::size_t n : test::awkward_sizes()) {
    const auto gradient = test::normal_values(n, 3);
    const auto residual = test::normal_values(n, 4);
    const FixedScopes scopes = n == 0 ? FixedScopes{64, 1, 0} : scopes_of(n, 64, 0.05);
    const Selected want = scopes_by_sorting(gradient, residual, scopes);
    for (const auto& [name, place] : places) {
      const std::size_t shift = n % 16;
      test::Guarded<float> g(gradient, shift);
      test::Guarded<float> e(residual, shift / 2);
      test::Guarded<std::uint32_t> indices(scopes.selected(n), shift);
      test::Guarded<float> values(scopes.selected(n), shift + 1);
      Status status;
      error_feedback_topk_by_scope(*place, g.view(), e.view(), e.view(), scopes, {indices.view(), values.view()},
                                   view_of(status));
      ASSERT_EQ(difference({e.values(), indices.values(), values.values(), status}, want), "") << name << ' ' << n;
      EXPECT_TRUE(g.intact() && e.intact() && indices.intact() && values.intact()) << name << ' ' << n;
    }
  }
}

TEST(TopkByScope, NonfiniteValuesAreFlaggedAndIndicesStayInBounds) {
  const std::size_t n = 20'000;
  const FixedScopes scopes = scopes_of(n, 3'000, 0.1);
  const std::vector<float> residual(n, 0.0F);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const auto& [name, place] : test::all_places()) {
      auto gradient = test::normal_values(n, 8);
      gradient[7'123] = bad;
      const Selected got = run_scopes(*place, gradient, residual, scopes);
      EXPECT_EQ(got.status.nonfinite, 1U) << name;
      for (const std::uint32_t index : got.indices) ASSERT_LT(index, n) << name;
    }
  }
}

TEST(TopkByScope, ScopesThatCannotBeAreRefused) {
  Place place({.threads = 1});
  std::vector<float> view(1'000, 1.0F);
  std::vector<std::uint32_t> indices(20);
  std::vector<float> values(20);
  Status status;
  const auto refused = [&](const FixedScopes& scopes) {
    return test::message_of<InvalidConfig>([&] {
      error_feedback_topk_by_scope(place, view, view, view, scopes, {indices, values}, view_of(status));
    });
  };
  EXPECT_TRUE(test::contains(refused({0, 1, 1}), "1..65536"));
  EXPECT_TRUE(test::contains(refused({65'537, 1, 1}), "65537"));
  EXPECT_TRUE(test::contains(refused({100, 101, 1}), "101"));
  EXPECT_TRUE(test::contains(refused({300, 1, 101}), "101"));
  EXPECT_TRUE(test::contains(refused({100, 1, 1}), "selected"));
}

}  // namespace
}  // namespace laconic
