// The twin of kernels/regtopk against the reference, to the bit.

#include "kernels/regtopk/regtopk.h"

#include <random>

#include "cuda/fixture.h"
#include "kernels/topk_data.h"

namespace laconic::test {
namespace {

struct Support {
  std::vector<std::uint32_t> indices;
  std::vector<float> corrected;
  std::vector<float> aggregate;
};

/// About every `stride`-th entry, with remembered values of all sizes, some zero.
Support make_support(std::size_t n, std::size_t stride, std::uint64_t seed) {
  Support support;
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  for (std::size_t i = seed % stride; i < n; i += 1 + engine() % (2 * stride - 1)) {
    support.indices.push_back(static_cast<std::uint32_t>(i));
    support.corrected.push_back(i % 11 == 0 ? 0.0F : normal(engine));
    support.aggregate.push_back(i % 13 == 0 ? 0.0F : normal(engine) * 5.0F);
  }
  return support;
}

class CudaRegtopk : public Cuda {
 protected:
  Selected on_cpu(const std::vector<float>& gradient, const std::vector<float>& residual, const Support& support,
                  const RegtopkScore& score, std::size_t k) {
    Selected result{std::vector<float>(gradient.size()), std::vector<std::uint32_t>(k), std::vector<float>(k), {}};
    error_feedback_regtopk(reference_, gradient, residual, result.rest,
                           {support.indices, support.corrected, support.aggregate}, score,
                           {result.indices, result.values}, view_of(result.status));
    return result;
  }

  Selected on_device(const std::vector<float>& gradient, const std::vector<float>& residual, const Support& support,
                     const RegtopkScore& score, std::size_t k, float guess, std::size_t shift) {
    const DeviceArray<float> g(gradient, shift);
    const DeviceArray<float> rest(residual, shift);
    const DeviceArray<std::uint32_t> support_indices(support.indices, 1);
    const DeviceArray<float> corrected(support.corrected, 2);
    const DeviceArray<float> aggregate(support.aggregate, 3);
    const DeviceArray<std::uint32_t> indices(k);
    const DeviceArray<float> values(k);
    Status before;
    before.threshold = guess;
    const DeviceArray<Status> status(std::vector<Status>{before});
    error_feedback_regtopk(*place_, g.view(), rest.view(), rest.view(),
                           {support_indices.view(), corrected.view(), aggregate.view()}, score,
                           {indices.view(), values.view()}, status.view());
    EXPECT_TRUE(g.intact() && rest.intact() && indices.intact() && values.intact() && status.intact());
    return {rest.values(), indices.values(), values.values(), status.values()[0]};
  }

  void expect_same(const Kind& kind, std::size_t n, std::size_t stride, const RegtopkScore& score) {
    const auto gradient = values_of(kind, n, 21);
    const auto residual = values_of(kind, n, 22);
    const Support support = make_support(n, stride, n);
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, n / 50, n / 3, n}) {
      const Selected want = on_cpu(gradient, residual, support, score, k);
      for (const float scale : {0.0F, 1.0F, 1.25F, 0.5F}) {
        if (left_out()) continue;
        const float guess = scale * want.status.threshold;
        const Selected got = on_device(gradient, residual, support, score, k, guess, n % 4);
        EXPECT_EQ(difference(got, want), "")
            << kind.name << ", n " << n << ", stride " << stride << ", k " << k << ", guess " << guess;
      }
    }
  }
};

TEST_F(CudaRegtopk, EveryKind) {
  for (const Kind& kind : data_kinds()) {
    for (const auto denominator : {Denominator::previous, Denominator::current}) {
      const RegtopkScore score{.mu = 4.0F, .weight = 0.25F, .denominator = denominator};
      expect_same(kind, 17, 3, score);
      expect_same(kind, 1'500, 2, score);
      expect_same(kind, 20'009, 60, score);
    }
  }
}

TEST_F(CudaRegtopk, SizesAroundTiles) {
  for (const std::size_t n : {4'097UL, 8'192UL, 8'193UL, 12'287UL, 12'288UL, 12'289UL, 65'541UL}) {
    for (const std::size_t stride : {std::size_t{1}, std::size_t{40}, 2 * n}) {
      expect_same(data_kinds()[0], n, stride, {.mu = 2.0F, .weight = 0.5F, .denominator = Denominator::previous});
    }
  }
}

TEST_F(CudaRegtopk, ASupportThatHoldsEverythingLargeIsStillExact) {
  // The scores of all that is largest drop almost to zero, so what magnitudes alone promise is wrong.
  const std::size_t n = 100'003;
  const auto gradient = normal_values(n, 23);
  const std::vector<float> residual(n, 0.0F);
  Support support;
  for (std::size_t i = 0; i < n; ++i) {
    if (std::abs(gradient[i]) < 1.8F) continue;
    support.indices.push_back(static_cast<std::uint32_t>(i));
    support.corrected.push_back(1.0F);
    support.aggregate.push_back(0.001F);
  }
  for (const auto denominator : {Denominator::previous, Denominator::current}) {
    const RegtopkScore score{.mu = 4.0F, .weight = 1.0F, .denominator = denominator};
    const Selected want = on_cpu(gradient, residual, support, score, n / 100);
    for (const float guess : {0.0F, want.status.threshold, 2.6F}) {
      const Selected got = on_device(gradient, residual, support, score, n / 100, guess, 0);
      EXPECT_EQ(difference(got, want), "") << guess;
    }
  }
}

TEST_F(CudaRegtopk, WithoutASupportItIsTopk) {
  const auto gradient = normal_values(5'000, 31);
  const std::vector<float> residual(gradient.size(), 0.0F);
  const Selected want = on_cpu(gradient, residual, {}, {}, 50);
  EXPECT_EQ(difference(on_device(gradient, residual, {}, {}, 50, 0.0F, 1), want), "");
}

TEST_F(CudaRegtopk, EveryScopeOfAListIsExact) {
  const RegtopkScore score{.mu = 2.0F, .weight = 0.25F, .denominator = Denominator::previous};
  for (const ScopedData& data : data_in_scopes()) {
    const std::size_t count = data.scopes.size();
    Support support;  // of each scope as many as it selects, spread over it
    for (const Scope& scope : data.scopes) {
      const auto few = normal_values(2 * scope.count, scope.offset + 1);
      for (std::uint64_t i = 0; i < scope.count; ++i) {
        support.indices.push_back(static_cast<std::uint32_t>(i * scope.size / scope.count));
        support.corrected.push_back(i % 11 == 0 ? 0.0F : few[2 * i]);
        support.aggregate.push_back(i % 13 == 0 ? 0.0F : 5.0F * few[2 * i + 1]);
      }
    }
    const std::vector<float> cold_start(count);
    std::vector<float> thresholds(count);
    Selected want{data.residual, std::vector<std::uint32_t>(data.selected), std::vector<float>(data.selected), {}};
    error_feedback_regtopk_by_scope(reference_, data.gradient, data.residual, want.rest, data.scopes,
                                    {cold_start, thresholds},
                                    {support.indices, support.corrected, support.aggregate}, score,
                                    {want.indices, want.values}, view_of(want.status));
    want.status.threshold = 0.0F;
    const DeviceArray<std::uint32_t> support_indices(support.indices, 1);
    const DeviceArray<float> corrected(support.corrected, 2), aggregate(support.aggregate, 3);
    for (const bool cold : {true, false}) {
      const DeviceArray<float> g(data.gradient, 1), rest(data.residual, 2), next(count);
      const DeviceArray<float> last(cold ? cold_start : guesses_in_scopes(thresholds));
      const DeviceArray<std::uint32_t> indices(data.selected, 3);
      const DeviceArray<float> values(data.selected, 1);
      const DeviceArray<Status> status(std::vector<Status>{Status{}});
      error_feedback_regtopk_by_scope(*place_, g.view(), rest.view(), rest.view(), data.scopes,
                                      {last.view(), next.view()},
                                      {support_indices.view(), corrected.view(), aggregate.view()}, score,
                                      {indices.view(), values.view()}, status.view());
      EXPECT_TRUE(g.intact() && rest.intact() && indices.intact() && values.intact() && next.intact());
      const Selected got{rest.values(), indices.values(), values.values(), status.values()[0]};
      EXPECT_EQ(difference(got, want), "") << data.name << ", cold " << cold;
      EXPECT_TRUE(test::same_bits(next.values(), thresholds)) << data.name << ", cold " << cold;
    }
  }
}

TEST_F(CudaRegtopk, NonfiniteValuesAreReported) {
  for (const std::size_t n : {std::size_t{3'001}, std::size_t{9'001}}) {
    const Support support = make_support(n, 30, 1);
    for (const std::size_t k : {std::size_t{30}, n}) {
      auto gradient = normal_values(n, 33);
      gradient[support.indices[5]] = kNotANumber;
      const Selected got = on_device(gradient, std::vector<float>(n, 0.0F), support, {}, k, 0.5F, 0);
      EXPECT_EQ(got.status.nonfinite, 1U);
      EXPECT_EQ(got.status.threshold, 0.5F);
    }
  }
}

TEST_F(CudaRegtopk, ANonfiniteValueInOneScopeIsReported) {
  const ScopedData data = scoped_data("", {40, 9'000, 20'000, 8'500}, 0.01, 0);
  const std::size_t count = data.scopes.size();
  const RegtopkScore score{.mu = 2.0F, .weight = 0.25F};
  const std::vector<std::uint32_t> support_indices = [&] {
    std::vector<std::uint32_t> indices;
    for (const Scope& scope : data.scopes) {
      for (std::uint64_t i = 0; i < scope.count; ++i) indices.push_back(static_cast<std::uint32_t>(i));
    }
    return indices;
  }();
  const std::vector<float> ones(data.selected, 1.0F);
  std::vector<float> thresholds(count), rest(data.gradient.size()), kept(data.selected);
  std::vector<std::uint32_t> positions(data.selected);
  Status cpu_status;
  error_feedback_regtopk_by_scope(reference_, data.gradient, data.residual, rest, data.scopes, {thresholds, thresholds},
                                  {support_indices, ones, ones}, score, {positions, kept}, view_of(cpu_status));
  for (std::size_t bad = 0; bad < count; ++bad) {
    std::vector<float> gradient = data.gradient;
    gradient[data.scopes[bad].offset + 7] = kNotANumber;
    const DeviceArray<float> g(gradient), e(data.residual), next(std::vector<float>(count, 0.5F)), a(ones);
    const DeviceArray<std::uint32_t> support(support_indices), indices(data.selected);
    const DeviceArray<float> values(data.selected);
    const DeviceArray<Status> status(std::vector<Status>{Status{}});
    error_feedback_regtopk_by_scope(*place_, g.view(), e.view(), e.view(), data.scopes, {next.view(), next.view()},
                                    {support.view(), a.view(), a.view()}, score, {indices.view(), values.view()},
                                    status.view());
    EXPECT_EQ(status.values()[0].nonfinite, 1U);
    std::vector<float> expected = thresholds;
    expected[bad] = 0.5F;
    EXPECT_TRUE(test::same_bits(next.values(), expected)) << bad;
    for (const std::uint32_t index : indices.values()) ASSERT_LT(index, gradient.size());
  }
}

}  // namespace
}  // namespace laconic::test
