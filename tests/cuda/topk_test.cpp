// The twins of kernels/topk against the reference, to the bit, and against the best level of this processor.

#include "kernels/topk/topk.h"

#include <algorithm>

#include "cuda/fixture.h"
#include "kernels/topk/sample.h"
#include "kernels/topk_data.h"

namespace laconic::test {
namespace {

/// Around a warp, what one block selects from, a tile of the scan and a block of emit's tiles; with and without
/// neighbours.
const std::vector<std::size_t> kTopkSizes{1,      2,      31,     32,     33,     997,     4097,   8191,
                                          8192,   8193,   8208,   12'287, 12'288, 12'289,  65'537, 131'101};

/// Entries that each view lies off its alignment.
struct Shifts {
  std::size_t gradient = 0;
  std::size_t residual = 0;
  std::size_t rest = 0;
  std::size_t selected = 0;
  bool in_place = false;  ///< `rest` is the residual itself
};

class CudaTopk : public Cuda {
 protected:
  static Selected on_cpu(Place& place, const std::vector<float>& gradient, const std::vector<float>& residual,
                         std::size_t k) {
    Selected result{std::vector<float>(gradient.size()), std::vector<std::uint32_t>(k), std::vector<float>(k), {}};
    error_feedback_topk(place, gradient, residual, result.rest, {result.indices, result.values},
                        view_of(result.status));
    return result;
  }

  Selected on_device(const std::vector<float>& gradient, const std::vector<float>& residual, std::size_t k, float guess,
                     const Shifts& shifts) {
    const DeviceArray<float> g(gradient, shifts.gradient);
    const DeviceArray<float> e(residual, shifts.residual);
    const DeviceArray<float> other(gradient.size(), shifts.rest);
    const DeviceArray<float>& rest = shifts.in_place ? e : other;
    const DeviceArray<std::uint32_t> indices(k, shifts.selected);
    const DeviceArray<float> values(k, shifts.selected + 1);
    Status before;
    before.threshold = guess;
    const DeviceArray<Status> status(std::vector<Status>{before});
    error_feedback_topk(*place_, g.view(), e.view(), rest.view(), {indices.view(), values.view()}, status.view());
    EXPECT_TRUE(g.intact() && e.intact() && other.intact() && indices.intact() && values.intact() && status.intact());
    EXPECT_TRUE(test::same_bits(g.values(), gradient));
    EXPECT_TRUE(shifts.in_place || test::same_bits(e.values(), residual));
    return {rest.values(), indices.values(), values.values(), status.values()[0]};
  }

  /// A right guess, none, ones that are too high and too low, and absurd ones.
  static std::vector<float> guesses(float threshold) {
    return {0.0F, threshold, 1.02F * threshold, 1.25F * threshold, 0.5F * threshold, 1e-3F * threshold,
            kInfinity, -1.0F, kNotANumber};
  }

  Place fast_{{.threads = 2}};
};

TEST_F(CudaTopk, EverySizeAndAlignment) {
  for (const std::size_t n : kTopkSizes) {
    const auto gradient = normal_values(n, n);
    const auto residual = awkward_values(n, n + 1);
    for (const std::size_t k : keeps_of(n)) {
      const Selected want = on_cpu(reference_, gradient, residual, k);
      ASSERT_EQ(difference(on_cpu(fast_, gradient, residual, k), want), "");
      const std::size_t shift = (n + k) % 4;
      for (const Shifts& shifts : {Shifts{}, Shifts{shift, shift, shift, shift, true}, Shifts{1, 2, 3, 1, false}}) {
        for (const float guess : {0.0F, want.status.threshold}) {
          if (left_out()) continue;
          EXPECT_EQ(difference(on_device(gradient, residual, k, guess, shifts), want), "")
              << "n " << n << ", k " << k << ", guess " << guess << ", shift " << shifts.rest;
        }
      }
    }
  }
}

TEST_F(CudaTopk, EveryKindAndGuess) {
  for (const Kind& kind : data_kinds()) {
    for (const std::size_t n : {std::size_t{900}, std::size_t{7'003}, std::size_t{17'003}}) {
      const auto gradient = values_of(kind, n, 1);
      const auto residual = values_of(kind, n, 2);
      for (const std::size_t k : {std::size_t{1}, n / 100, n / 3}) {
        const Selected want = on_cpu(reference_, gradient, residual, k);
        for (const float guess : guesses(want.status.threshold)) {
          if (left_out()) continue;
          EXPECT_EQ(difference(on_device(gradient, residual, k, guess, {}), want), "")
              << kind.name << ", n " << n << ", k " << k << ", guess " << guess;
        }
      }
    }
  }
}

TEST_F(CudaTopk, CandidatesThatDoNotFitAreExactToo) {
  // With so many entries there is room for a part of them only, and all are candidates.
  const std::size_t n = 150'001;
  for (const Kind& kind : data_kinds()) {
    if (kind.name != "constant" && kind.name != "all zero" && kind.name != "few values") continue;
    const auto gradient = values_of(kind, n, 3);
    const std::vector<float> residual(n, 0.0F);
    for (const std::size_t k : {std::size_t{1}, n / 100, n - 1}) {
      const Selected want = on_cpu(reference_, gradient, residual, k);
      for (const float guess : {0.0F, want.status.threshold}) {
        const Selected got = on_device(gradient, residual, k, guess, {0, 1, 1, 0, true});
        EXPECT_EQ(difference(got, want), "") << kind.name << ", k " << k << ", guess " << guess;
      }
    }
  }
}

TEST_F(CudaTopk, ASampleThatMisleadsIsExactToo) {
  // The lines that are sampled have the smallest entries, so that far too many are candidates, or the largest.
  const std::size_t n = 150'001;
  const std::size_t lines = 1024;
  const std::vector<float> residual(n, 0.0F);
  for (const float scale : {1e-3F, 1e3F}) {
    auto gradient = normal_values(n, 6);
    for (std::size_t line = 0; line < lines; ++line) {
      const std::size_t begin = topk::sampled_at(n, lines, line, false);
      for (std::size_t i = begin; i < begin + topk::kLine; ++i) gradient[i] *= scale;
    }
    for (const std::size_t k : {n / 100, n / 5}) {
      const Selected want = on_cpu(reference_, gradient, residual, k);
      const Selected got = on_device(gradient, residual, k, 0.0F, {0, 1, 1, 0, true});
      EXPECT_EQ(difference(got, want), "") << "scale " << scale << ", k " << k;
      EXPECT_EQ(got.status.rescans, 1U) << "scale " << scale << ", k " << k;
    }
    auto bad = gradient;
    bad[n - 1] = kNotANumber;
    EXPECT_EQ(on_device(bad, residual, n / 100, 0.0F, {}).status.nonfinite, 1U);
  }
}

TEST_F(CudaTopk, ARightGuessIsEnough) {
  // The next step's data, with the threshold of the last: no entry is read again.
  const std::size_t n = 200'003;
  const std::size_t k = n / 100;
  const std::vector<float> residual(n, 0.0F);
  const Selected last = on_cpu(reference_, normal_values(n, 11), residual, k);
  const auto gradient = normal_values(n, 12);
  const Selected want = on_cpu(reference_, gradient, residual, k);
  for (const float guess : {0.0F, last.status.threshold, 1.25F * want.status.threshold, 0.5F * want.status.threshold}) {
    const Selected got = on_device(gradient, residual, k, guess, {});
    EXPECT_EQ(difference(got, want), "") << guess;
    EXPECT_EQ(got.status.rescans, 0U) << guess;
  }
}

TEST_F(CudaTopk, NonfiniteValuesAreReported) {
  for (const std::size_t n : {std::size_t{5}, std::size_t{8'100}, std::size_t{10'007}, std::size_t{150'001}}) {
    for (const float bad : {kInfinity, -kInfinity, kNotANumber}) {
      for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
        for (const std::size_t k : {std::size_t{0}, std::size_t{1}, n / 2, n}) {
          if (left_out()) continue;
          auto gradient = n == 150'001 ? std::vector<float>(n, 1.0F) : normal_values(n, 4);
          gradient[at] = bad;
          const Selected got = on_device(gradient, std::vector<float>(n, 0.0F), k, 0.25F, {});
          EXPECT_EQ(got.status.nonfinite, 1U) << "n " << n << ", k " << k << ", at " << at;
          EXPECT_EQ(got.status.threshold, 0.25F);
          EXPECT_EQ(got.status.count, k);
          EXPECT_TRUE(std::all_of(got.indices.begin(), got.indices.end(), [&](std::uint32_t i) { return i < n; }));
        }
      }
    }
  }
}

TEST_F(CudaTopk, ManyNonfiniteValuesAreReported) {
  const std::size_t n = 9'000;
  for (const float bad : {kInfinity, kNotANumber}) {
    std::vector<float> gradient(n, kNotANumber);
    gradient[7] = bad;
    EXPECT_EQ(on_device(gradient, std::vector<float>(n, 0.0F), 90, 0.0F, {}).status.nonfinite, 1U);
  }
}

TEST_F(CudaTopk, AnEmptyViewSelectsNothing) {
  const Selected got = on_device({}, {}, 0, 0.5F, {});
  EXPECT_EQ(got.status.count, 0U);
  EXPECT_EQ(got.status.threshold, 0.0F);
  EXPECT_EQ(got.status.nonfinite, 0U);
}

TEST_F(CudaTopk, SplitLargest) {
  for (const std::size_t n : {0UL, 1UL, 2UL, 33UL, 511UL, 513UL, 8'191UL, 8'193UL, 30'011UL}) {
    for (const Kind& kind : data_kinds()) {
      if (n > 600 && kind.name != "normal" && kind.name != "few values" && kind.name != "signed zeros") continue;
      const auto values = values_of(kind, n, 5);
      std::vector<std::uint32_t> indices(n);
      for (std::size_t i = 0; i < n; ++i) indices[i] = static_cast<std::uint32_t>(3 * i + 1);
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}, n / 3, n}) {
        if (k > n || left_out()) continue;
        std::vector<std::uint32_t> kept_indices(k), left_indices(n - k);
        std::vector<float> kept_values(k), left_values(n - k);
        split_largest(reference_, {indices, values}, {kept_indices, kept_values}, {left_indices, left_values});
        const DeviceArray<std::uint32_t> device_indices(indices, 1), kept_i(k, 1), left_i(n - k, 2);
        const DeviceArray<float> device_values(values, 3), kept_v(k, 2), left_v(n - k, 1);
        split_largest(*place_, SparseView{device_indices.view(), device_values.view()}, {kept_i.view(), kept_v.view()},
                      {left_i.view(), left_v.view()});
        EXPECT_TRUE(test::same_bits(kept_i.values(), kept_indices)) << kind.name << ", n " << n << ", k " << k;
        EXPECT_TRUE(test::same_bits(kept_v.values(), kept_values)) << kind.name << ", n " << n << ", k " << k;
        EXPECT_TRUE(test::same_bits(left_i.values(), left_indices)) << kind.name << ", n " << n << ", k " << k;
        EXPECT_TRUE(test::same_bits(left_v.values(), left_values)) << kind.name << ", n " << n << ", k " << k;
        EXPECT_TRUE(kept_i.intact() && kept_v.intact() && left_i.intact() && left_v.intact());
      }
    }
  }
}

// ---- a list of scopes

TEST_F(CudaTopk, EveryScopeOfAListIsExact) {
  for (const ScopedData& data : data_in_scopes()) {
    const std::size_t count = data.scopes.size();
    const std::vector<float> cold_start(count);
    std::vector<float> thresholds(count);
    Selected want{std::vector<float>(data.gradient.size(), 7.0F), std::vector<std::uint32_t>(data.selected),
                  std::vector<float>(data.selected), {}};
    error_feedback_topk_by_scope(reference_, data.gradient, data.residual, want.rest, data.scopes,
                                 {cold_start, thresholds}, {want.indices, want.values},
                                 view_of(want.status));
    want.status.threshold = 0.0F;
    for (const bool cold : {true, false}) {
      const DeviceArray<float> g(data.gradient, cold ? 0 : 1), e(data.residual, cold ? 0 : 2);
      const DeviceArray<float> rest(std::vector<float>(data.gradient.size(), 7.0F), cold ? 0 : 3);
      const DeviceArray<std::uint32_t> indices(data.selected, 1);
      const DeviceArray<float> values(data.selected, 2), next(count, 1);
      const DeviceArray<float> last(cold ? cold_start : guesses_in_scopes(thresholds));
      const DeviceArray<Status> status(std::vector<Status>{Status{}});
      error_feedback_topk_by_scope(*place_, g.view(), e.view(), rest.view(), data.scopes, {last.view(), next.view()},
                                   {indices.view(), values.view()}, status.view());
      EXPECT_TRUE(g.intact() && e.intact() && rest.intact() && indices.intact() && values.intact() && next.intact());
      Selected got{rest.values(), indices.values(), values.values(), status.values()[0]};
      EXPECT_EQ(difference(got, want), "") << data.name << ", cold " << cold;
      EXPECT_TRUE(test::same_bits(next.values(), thresholds)) << data.name << ", cold " << cold;
    }
  }
}

TEST_F(CudaTopk, ANonfiniteValueInOneScopeIsReported) {
  ScopedData data = scoped_data("", {40, 9'000, 8'000, 20'000, 3, 8'500, 9'000}, 0.01, 0);
  data.scopes[5].count = data.scopes[5].size;  // of a long one everything
  data.scopes[6].first = data.scopes[5].first + data.scopes[5].count;
  data.selected = data.scopes[6].first + data.scopes[6].count;
  std::vector<float> cpu_thresholds(data.scopes.size()), rest(data.gradient.size()), kept(data.selected);
  std::vector<std::uint32_t> positions(data.selected);
  Status cpu_status;
  error_feedback_topk_by_scope(reference_, data.gradient, data.residual, rest, data.scopes,
                               {cpu_thresholds, cpu_thresholds}, {positions, kept}, view_of(cpu_status));
  for (const std::size_t bad : {std::size_t{0}, std::size_t{3}, std::size_t{5}}) {
    std::vector<float> gradient = data.gradient;
    gradient[data.scopes[bad].offset + 7] = kNotANumber;
    const std::vector<float> last(data.scopes.size(), 0.5F);
    const DeviceArray<float> g(gradient), e(data.residual), thresholds(last), values(data.selected);
    const DeviceArray<std::uint32_t> indices(data.selected);
    const DeviceArray<Status> status(std::vector<Status>{Status{}});
    error_feedback_topk_by_scope(*place_, g.view(), e.view(), e.view(), data.scopes,
                                 {thresholds.view(), thresholds.view()}, {indices.view(), values.view()}, status.view());
    EXPECT_EQ(status.values()[0].nonfinite, 1U);
    std::vector<float> next = cpu_thresholds;
    next[bad] = 0.5F;
    EXPECT_TRUE(test::same_bits(thresholds.values(), next));
    for (const std::uint32_t index : indices.values()) ASSERT_LT(index, gradient.size());
  }
}

/// Selections in fixed scopes, on the device and by the reference.
class CudaTopkByScope : public CudaTopk {
 protected:
  static FixedScopes scopes_of(std::size_t n, std::size_t each, double keep) {
    const auto kept = [&](std::size_t size) {
      return std::max<std::size_t>(1, static_cast<std::size_t>(keep * static_cast<double>(size)));
    };
    return {each, kept(each), kept(n % each == 0 ? each : n % each)};
  }

  Selected by_reference(const std::vector<float>& gradient, const std::vector<float>& residual,
                        const FixedScopes& scopes) {
    const std::size_t k = scopes.selected(gradient.size());
    Selected result{std::vector<float>(gradient.size()), std::vector<std::uint32_t>(k), std::vector<float>(k), {}};
    error_feedback_topk_by_scope(reference_, gradient, residual, result.rest, scopes, {result.indices, result.values},
                                 view_of(result.status));
    return result;
  }

  Selected on_device(const std::vector<float>& gradient, const std::vector<float>& residual, const FixedScopes& scopes,
                     std::size_t shift) {
    const std::size_t k = scopes.selected(gradient.size());
    const DeviceArray<float> g(gradient, shift);
    const DeviceArray<float> e(residual, shift);
    const DeviceArray<std::uint32_t> indices(k, shift);
    const DeviceArray<float> values(k, shift);
    const DeviceArray<Status> status(std::vector<Status>{Status{}});
    error_feedback_topk_by_scope(*place_, g.view(), e.view(), e.view(), scopes, {indices.view(), values.view()},
                                 status.view());
    EXPECT_TRUE(g.intact() && e.intact() && indices.intact() && values.intact() && status.intact());
    return {e.values(), indices.values(), values.values(), status.values()[0]};
  }
};

TEST_F(CudaTopkByScope, EveryKindKeepAndScope) {
  for (const Kind& kind : data_kinds()) {
    for (const std::size_t n : {std::size_t{1}, std::size_t{900}, std::size_t{18'003}}) {
      const auto gradient = values_of(kind, n, 1);
      const auto residual = values_of(kind, n, 2);
      for (const std::size_t each : {100UL, 4096UL, 10'000UL}) {
        if (n / each > 100) continue;
        for (const double keep : {1e-9, 1.0 / 64, 1.0}) {
          if (left_out()) continue;
          const FixedScopes scopes = scopes_of(n, each, keep);
          const Selected want = by_reference(gradient, residual, scopes);
          EXPECT_EQ(difference(on_device(gradient, residual, scopes, n % 4), want), "")
              << kind.name << ", n " << n << ", each " << each << ", keep " << keep;
        }
      }
    }
  }
}

/// So many scopes that a block takes several. Their sizes of values differ, so that what one scope tells about the next
/// is right, too high or too low; some have no values that differ.
TEST_F(CudaTopkByScope, ABlockTakesSeveralScopes) {
  const std::size_t each = 64, n = 1'500 * each + 17;
  auto gradient = normal_values(n, 3);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t scope = i / each;
    if (scope % 7 == 3) gradient[i] *= 50.0F;
    if (scope % 11 == 5) gradient[i] = 0.25F;
    if (scope % 13 == 6) gradient[i] = 0.0F;
  }
  std::vector<float> residual = normal_values(n, 4);
  for (float& value : residual) value *= 0.01F;
  for (const double keep : {1.0 / 64, 1.0 / 8, 1.0}) {
    for (const std::vector<float>& second : {residual, std::vector<float>(n, 0.0F)}) {
      const FixedScopes scopes = scopes_of(n, each, keep);
      EXPECT_EQ(difference(on_device(gradient, second, scopes, 1), by_reference(gradient, second, scopes)), "") << keep;
    }
  }
  gradient[5 * each] = kInfinity;  // the block has more scopes after this one
  const Selected got = on_device(gradient, residual, scopes_of(n, each, 0.1), 0);
  EXPECT_EQ(got.status.nonfinite, 1U);
  for (const std::uint32_t index : got.indices) ASSERT_LT(index, n);
}

TEST_F(CudaTopkByScope, NonfiniteValuesAreFlaggedAndIndicesStayInBounds) {
  const std::size_t n = 10'000;
  for (const float bad : {kInfinity, -kInfinity, kNotANumber}) {
    auto gradient = normal_values(n, 8);
    gradient[7'123] = bad;
    const Selected got = on_device(gradient, std::vector<float>(n, 0.0F), scopes_of(n, 3'000, 0.1), 0);
    EXPECT_EQ(got.status.nonfinite, 1U);
    for (const std::uint32_t index : got.indices) ASSERT_LT(index, n);
  }
}

}  // namespace
}  // namespace laconic::test
