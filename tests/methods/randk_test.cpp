// Random-k against the page: exact for integers, each set as likely as any other, 16-bit values.

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/philox.h"
#include "kernels/convert/convert.h"
#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/statistics.h"
#include "support/support.h"

namespace laconic::test {
namespace {

/// Floyd's sampling with a set, from the draws that the method's file names.
std::set<std::uint64_t> drawn(std::uint64_t seed, std::uint32_t step, std::uint32_t tensor, std::uint64_t n,
                              std::uint64_t k) {
  const RandomStream stream{seed, step, kSharedRank, tensor, Purpose::random_k};
  std::set<std::uint64_t> set;
  for (std::uint64_t i = 0; i < k; ++i) {
    const std::uint64_t last = n - k + i;
    const std::uint64_t index = draw_below(stream, i, last + 1);
    set.insert(set.count(index) > 0 ? last : index);
  }
  return set;
}

/// All selected entries of the small model, k = max(1, floor(n/10)) in each scope.
std::set<std::uint64_t> selected(std::uint32_t step, bool by_tensor) {
  const auto count = [](std::uint64_t n) { return std::max<std::uint64_t>(1, n / 10); };
  const auto n = size_of(small_model());
  if (!by_tensor) return drawn(7, step, 0, n, count(n));
  std::set<std::uint64_t> all;
  std::uint64_t offset = 0;
  std::uint32_t number = 0;
  for (const Tensor& tensor : small_model()) {
    for (const auto index : drawn(7, step, number, tensor.size, count(tensor.size))) all.insert(offset + index);
    offset += tensor.size;
    ++number;
  }
  return all;
}

TEST(Randk, FollowsThePageExactlyForIntegers) {
  for (const bool by_tensor : {false, true}) {
    for (const int threads : {1, 3}) {
      run_ranks(3, [&](Communicator& communicator) {
        Place place({.threads = threads});
        const MethodOptions options{.keep = 0.1, .scope = by_tensor ? "tensor" : "model"};
        const auto method = make_method("randk", options, communicator, place);
        method->register_tensors(small_model());
        const auto n = size_of(small_model());
        std::vector<std::vector<double>> e(3, std::vector<double>(n, 0.0));
        for (std::uint32_t step = 0; step < 50; ++step) {
          const auto chosen = selected(step, by_tensor);
          std::vector<float> expected(n, 0.0F);
          for (std::size_t k = 0; k < 3; ++k) {
            const auto g = integer_gradient(n, static_cast<int>(k), step);
            for (std::size_t i = 0; i < n; ++i) e[k][i] += static_cast<double>(g[i]);
          }
          for (const auto i : chosen) {
            expected[i] = static_cast<float>(e[0][i] + e[1][i] + e[2][i]) / 3.0F;
            for (auto& each : e) each[i] = 0.0;
          }
          auto gradient = integer_gradient(n, communicator.rank(), step);
          method->reduce({7, step, static_cast<std::uint32_t>(communicator.rank())}, gradient);
          ASSERT_TRUE(gradient == expected) << "step " << step;
          std::vector<float> residual(n);
          method->save().get("residual", View<float>(residual));
          const auto& mine = e[static_cast<std::size_t>(communicator.rank())];
          for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(static_cast<double>(residual[i]), mine[i]);
        }
      });
    }
  }
}

// Entries have the chance k/n, pairs k(k-1)/(n(n-1)): Bernstein's bound for 29 entries and 406 pairs, a false alarm in
// one of a million choices of the seed for all of them together.
TEST(Randk, EverySetIsAsLikelyAsAnyOther) {
  constexpr std::size_t kSize = 29;
  constexpr std::uint32_t kDraws = 20'000;
  constexpr double kCount = 5.0;  // floor(0.2·29)
  run_ranks(1, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method("randk", {.keep = 0.2}, communicator, place);
    std::vector<std::vector<std::uint32_t>> together(kSize, std::vector<std::uint32_t>(kSize, 0));
    std::vector<float> gradient(kSize);
    for (std::uint32_t step = 0; step < kDraws; ++step) {
      std::fill(gradient.begin(), gradient.end(), 1.0F);  // what is owed is above 0, so what is sent is too
      method->reduce({3, step, 0}, gradient);
      std::vector<std::size_t> sent;
      for (std::size_t i = 0; i < kSize; ++i) {
        if (gradient[i] > 0.0F) sent.push_back(i);
      }
      ASSERT_EQ(sent.size(), 5U);
      for (const std::size_t i : sent) {
        for (const std::size_t j : sent) ++together[i][j];
      }
    }
    const auto expect_count = [&](std::uint32_t count, double chance, std::size_t i, std::size_t j) {
      const double allowed = bernstein(kDraws * chance * (1 - chance), 1.0, chance_of_one(29 + 406));
      EXPECT_LE(std::abs(count - kDraws * chance), allowed) << i << " " << j;
    };
    for (std::size_t i = 0; i < kSize; ++i) {
      expect_count(together[i][i], kCount / kSize, i, i);
      for (std::size_t j = 0; j < i; ++j) {
        expect_count(together[i][j], kCount * (kCount - 1) / (kSize * (kSize - 1.0)), i, j);
      }
    }
  });
}

TEST(Randk, KeepsTheRoundingOf16BitValues) {
  for (const auto format : {ValueFormat::f16, ValueFormat::bf16}) {
    run_ranks(2, [&](Communicator& communicator) {
      Place place({.threads = 1});
      const auto method = make_method("randk", {.keep = 0.1, .values = format_name(format)}, communicator, place);
      method->register_tensors(small_model());
      const auto n = size_of(small_model());
      std::vector<float> residual(n, 0.0F);
      for (std::uint32_t step = 0; step < 10; ++step) {
        auto gradient = normal_values(n, 10 * step + static_cast<std::uint64_t>(communicator.rank()));
        std::vector<float> sent(n);
        for (std::size_t i = 0; i < n; ++i) sent[i] = gradient[i] + residual[i];
        std::vector<float> expected = sent;
        std::vector<float> errors(n);
        Status status;
        round_through_16bit(place, format, sent, errors, view_of(status));
        for (const auto i : selected(step, false)) expected[i] = errors[i];
        method->reduce({7, step, static_cast<std::uint32_t>(communicator.rank())}, gradient);
        method->save().get("residual", View<float>(residual));
        ASSERT_TRUE(residual == expected) << "step " << step;
        ASSERT_TRUE(same_everywhere(communicator, gradient));
      }
    });
  }
}

// No index travels: payloads are values and headers.
TEST(Randk, SendsValuesOnly) {
  run_ranks(2, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method("randk", {.keep = 0.01}, communicator, place);
    std::vector<float> gradient(1'000'000, 1.0F);
    const StepReport report = method->reduce({1, 0, static_cast<std::uint32_t>(communicator.rank())}, gradient);
    EXPECT_LE(report.traffic.sent_bytes, 4U * 10'000 + 2 * 64);
    EXPECT_GE(report.traffic.sent_bytes, 4U * 10'000);
  });
}

// What they drew does not travel, so that values of other entries would be summed without a word.
TEST(Randk, RefusesRanksWithAnotherSeedOrStep) {
  for (const char* scope : {"model", "tensor"}) {
    for (const StepKey odd : {StepKey{8, 3}, StepKey{7, 4}, StepKey{7 + (std::uint64_t{1} << 32), 3}}) {
      run_ranks(3, [&](Communicator& communicator) {
        Place place({.threads = 1});
        const auto method = make_method("randk", {.keep = 0.1, .scope = scope}, communicator, place);
        method->register_tensors(small_model());
        std::vector<float> gradient(size_of(small_model()), 1.0F);
        const auto text = message_of<Error>(
            [&] { method->reduce(communicator.rank() == 1 ? odd : StepKey{7, 3}, gradient); });
        EXPECT_TRUE(contains(text, "for other blocks or entries") && contains(text, "another seed or step")) << text;
      });
    }
  }
}

TEST(Randk, TakesEmptyAndSingleTensors) {
  run_ranks(2, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method("randk", {.keep = 0.5, .scope = "tensor"}, communicator, place);
    const std::vector<Tensor> tensors{{"none", 0}, {"one", 1}, {"three", 3}};
    method->register_tensors(tensors);
    std::vector<float> gradient{1.0F, 2.0F, 2.0F, 2.0F};
    method->reduce({1, 0, static_cast<std::uint32_t>(communicator.rank())}, gradient);
    EXPECT_EQ(gradient[0], 1.0F);
    EXPECT_EQ(gradient[1] + gradient[2] + gradient[3], 2.0F);  // floor(1.5) = 1 entry of three
  });
}

}  // namespace
}  // namespace laconic::test
