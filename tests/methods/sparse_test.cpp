// Top-k, RegTop-k and the dense baselines against float64 models written from their pages.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/sparse_model.h"
#include "support/support.h"

namespace laconic::test {
namespace {

/// Runs 50 steps of real-valued (or integer) gradients and compares aggregate and residual with the model.
void compare(const char* name, const MethodOptions& options, const SparseModel& prototype, bool integers) {
  const int workers = 3;
  run_ranks(workers, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method(name, options, communicator, place);
    method->register_tensors(small_model());
    const auto n = size_of(small_model());
    std::vector<SparseModel> models(workers, prototype);
    for (std::uint32_t step = 0; step < 50; ++step) {
      std::vector<std::vector<float>> gradients;
      for (int rank = 0; rank < workers; ++rank) {
        gradients.push_back(integers ? integer_gradient(n, rank, step)
                                     : normal_values(n, 1000ULL * step + static_cast<std::uint64_t>(rank)));
      }
      const auto mean = sparse_mean(models, gradients);
      auto gradient = gradients[static_cast<std::size_t>(communicator.rank())];
      method->reduce({1, step, static_cast<std::uint32_t>(communicator.rank())}, gradient);
      std::vector<float> residual(n);
      method->save().get("residual", residual);
      const auto& mine = models[static_cast<std::size_t>(communicator.rank())].residual;
      for (std::size_t i = 0; i < n; ++i) {
        if (integers) {
          ASSERT_EQ(gradient[i], static_cast<float>(mean[i])) << "step " << step << " entry " << i;
          ASSERT_EQ(static_cast<double>(residual[i]), mine[i]) << "step " << step << " entry " << i;
        } else {
          ASSERT_NEAR(gradient[i], mean[i], 1e-5) << "step " << step << " entry " << i;
          ASSERT_NEAR(residual[i], mine[i], 1e-5) << "step " << step << " entry " << i;
        }
      }
    }
  });
}

TEST(Topk, EqualsItsPageExactlyOnIntegers) { compare("topk", {.keep = 0.05}, {.keep = 0.05}, true); }
TEST(Topk, EqualsItsPageByTensor) {
  compare("topk", {.keep = 0.05, .scope = "tensor"}, {.keep = 0.05, .by_tensor = true}, true);
}
TEST(Topk, EqualsItsPageByEitherRoute) {
  compare("topk", {.keep = 0.05, .route = "gather"}, {.keep = 0.05}, true);
  compare("topk", {.keep = 0.05, .route = "range"}, {.keep = 0.05}, true);
}
TEST(Regtopk, EqualsItsPageWithThePreviousDenominator) {
  compare("regtopk", {.keep = 0.05, .mu = 4}, {.keep = 0.05, .mu = 4.0}, false);
  compare("regtopk", {.keep = 0.3, .mu = 1}, {.keep = 0.3, .mu = 1.0}, false);
}
TEST(Regtopk, EqualsItsPageWithTheCurrentDenominator) {
  compare("regtopk", {.keep = 0.05, .mu = 4, .denominator = "current"}, {.keep = 0.05, .mu = 4.0, .current = true},
          false);
}
TEST(Regtopk, EqualsItsPageByTensor) {
  compare("regtopk", {.keep = 0.05, .scope = "tensor"}, {.keep = 0.05, .mu = 4.0, .by_tensor = true}, false);
}

TEST(Topk, EqualsItsPageInScopesOfSoManyEntries) {
  compare("topk", {.keep = 0.05, .scope = "chunk", .chunk = 100}, {.keep = 0.05, .each = 100}, true);
  compare("topk", {.keep = 0.05, .scope = "chunk"}, {.keep = 0.05, .each = 4096}, true);  // the model is shorter
}
TEST(Regtopk, EqualsItsPageInScopesOfSoManyEntries) {
  compare("regtopk", {.keep = 0.05, .scope = "chunk", .chunk = 100}, {.keep = 0.05, .mu = 4.0, .each = 100}, false);
  compare("regtopk", {.keep = 0.05, .scope = "chunk", .chunk = 128, .values = "sign", .mu = 1},
          {.keep = 0.05, .mu = 1.0, .each = 128, .magnitudes = 1}, false);
}
TEST(Topk, EqualsItsPageWithMagnitudesThatScopesShare) {
  compare("topk", {.keep = 0.05, .values = "sign"}, {.keep = 0.05, .magnitudes = 1}, false);
  compare("topk", {.keep = 0.05, .values = "two", .route = "gather"}, {.keep = 0.05, .magnitudes = 2}, false);
  compare("topk", {.keep = 0.05, .values = "two", .route = "range"}, {.keep = 0.05, .magnitudes = 2}, false);
  compare("topk", {.keep = 0.05, .scope = "tensor", .values = "sign", .route = "range"},
          {.keep = 0.05, .by_tensor = true, .magnitudes = 1}, false);
  compare("topk", {.keep = 0.05, .scope = "tensor", .values = "two"},
          {.keep = 0.05, .by_tensor = true, .magnitudes = 2}, false);
  compare("topk", {.keep = 0.05, .scope = "chunk", .chunk = 100, .values = "sign", .route = "range"},
          {.keep = 0.05, .each = 100, .magnitudes = 1}, false);
  compare("topk", {.keep = 0.05, .scope = "chunk", .chunk = 100, .values = "two"},
          {.keep = 0.05, .each = 100, .magnitudes = 2}, false);
}
TEST(Regtopk, EqualsItsPageWithMagnitudesThatScopesShare) {
  compare("regtopk", {.keep = 0.05, .values = "sign", .mu = 4}, {.keep = 0.05, .mu = 4.0, .magnitudes = 1}, false);
  compare("regtopk", {.keep = 0.05, .scope = "tensor", .values = "two"},
          {.keep = 0.05, .mu = 4.0, .by_tensor = true, .magnitudes = 2}, false);
}

/// To so many significant bits, ties to even; for values that are normal in the format.
float rounded(float value, int bits) {
  int exponent = 0;
  const float mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}

/// What this worker owes after a step: a = g + e, less the k largest of a as they are sent.
std::vector<float> owed_after(const std::vector<float>& gradient, const std::vector<float>& owed, std::size_t k,
                              int bits) {
  std::vector<float> a(gradient.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = gradient[i] + owed[i];
  std::vector<std::size_t> order(a.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto i, auto j) { return std::abs(a[i]) > std::abs(a[j]); });
  for (std::size_t i = 0; i < k; ++i) a[order[i]] -= rounded(a[order[i]], bits);
  return a;
}

TEST(Topk, KeepsSixteenBitRoundingInTheResidual) {
  for (const auto& [format, bits] : {std::pair{"f16", 11}, std::pair{"bf16", 8}}) {
    run_ranks(2, [&, &format = format, &bits = bits](Communicator& communicator) {
      Place place({.threads = 1});
      const auto method = make_method("topk", {.keep = 0.1, .values = format}, communicator, place);
      const std::size_t n = 1000;
      std::vector<float> owed(n, 0.0F);
      std::vector<float> residual(n);
      for (std::uint32_t step = 0; step < 30; ++step) {
        auto gradient = normal_values(n, step * 2 + static_cast<std::uint64_t>(communicator.rank()));
        owed = owed_after(gradient, owed, n / 10, bits);
        method->reduce({1, step}, gradient);
        method->save().get("residual", residual);
        ASSERT_TRUE(residual == owed) << format << " step " << step;
      }
      const auto kept = std::count_if(owed.begin(), owed.end(), [](float value) {
        return value != 0.0F && std::abs(value) < 0.01F;
      });
      EXPECT_GT(kept, 50) << "entries that owe no more than a rounding";
    });
  }
}

TEST(Topk, UnionKeepConservesAndSendsLittle) {
  run_ranks(4, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method("topk", {.keep = 0.05, .union_ = "keep"}, communicator, place);
    const auto n = size_of(small_model());
    std::vector<float> residual(n, 0.0F);
    for (std::uint32_t step = 0; step < 20; ++step) {
      auto gradient = integer_gradient(n, communicator.rank(), step);
      const auto came = sum_everywhere(communicator, gradient);
      const auto owed = sum_everywhere(communicator, residual);
      method->reduce({1, step, static_cast<std::uint32_t>(communicator.rank())}, gradient);
      method->save().get("residual", residual);
      const auto still_owed = sum_everywhere(communicator, residual);
      const auto present = std::count_if(gradient.begin(), gradient.end(), [](float value) { return value != 0.0F; });
      EXPECT_LE(present, static_cast<std::ptrdiff_t>(0.05 * static_cast<double>(n)) + 1);
      EXPECT_GE(present, static_cast<std::ptrdiff_t>(0.04 * static_cast<double>(n))) << "owners return their shares";
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(std::round(static_cast<double>(gradient[i]) * 4) + still_owed[i], came[i] + owed[i]) << i;
      }
    }
  });
}

/// With values of any format and a coded return, W times the mean and what all ranks owe is what came and what they owed,
/// but for the rounding of a few float32 operations.
TEST(Topk, ACodedReturnConservesInEveryFormatAndScope) {
  for (const char* values : {"f32", "f16", "bf16", "sign", "two"}) {
    for (const char* scope : {"model", "tensor", "chunk"}) {
      run_ranks(4, [&](Communicator& communicator) {
        Place place({.threads = 1});
        MethodOptions options{.keep = 0.05, .scope = scope, .values = values, .return_ = "coded"};
        if (options.scope == "chunk") options.chunk = 128;
        const auto method = make_method("topk", options, communicator, place);
        method->register_tensors(small_model());
        const auto n = size_of(small_model());
        std::vector<float> residual(n, 0.0F);
        for (std::uint32_t step = 0; step < 10; ++step) {
          auto gradient = normal_values(n, 10ULL * step + static_cast<std::uint64_t>(communicator.rank()));
          const auto came = sum_everywhere(communicator, gradient);
          const auto owed = sum_everywhere(communicator, residual);
          method->reduce({1, step}, gradient);
          method->save().get("residual", residual);
          const auto still_owed = sum_everywhere(communicator, residual);
          const auto present = std::count_if(gradient.begin(), gradient.end(), [](float x) { return x != 0.0F; });
          EXPECT_LE(present, static_cast<std::ptrdiff_t>(0.05 * static_cast<double>(n)) + 1);
          EXPECT_GE(present, static_cast<std::ptrdiff_t>(0.04 * static_cast<double>(n)));
          EXPECT_TRUE(same_everywhere(communicator, gradient));
          for (std::size_t i = 0; i < n; ++i) {
            ASSERT_NEAR(static_cast<double>(gradient[i]) * 4 + still_owed[i], came[i] + owed[i], 1e-4)
                << values << " " << scope << " step " << step << " entry " << i;
          }
        }
      });
    }
  }
}

TEST(Topk, UnionKeepIsACodedReturn) {
  run_ranks(4, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto one = make_method("topk", {.keep = 0.05, .union_ = "keep"}, communicator, place);
    const auto other = make_method("topk", {.keep = 0.05, .return_ = "coded"}, communicator, place);
    for (std::uint32_t step = 0; step < 5; ++step) {
      auto gradient = normal_values(2'000, 10ULL * step + static_cast<std::uint64_t>(communicator.rank()));
      auto same = gradient;
      one->reduce({1, step}, gradient);
      other->reduce({1, step}, same);
      ASSERT_TRUE(gradient == same) << step;
    }
    make_method("topk", {.union_ = "keep", .return_ = "coded"}, communicator, place);
    const auto text = message_of<InvalidConfig>(
        [&] { make_method("topk", {.union_ = "keep", .return_ = "exact"}, communicator, place); });
    EXPECT_TRUE(contains(text, "return counts only with union = sum, got exact")) << text;
  });
}

/// A rank sends its payload once and its share of the sums once, whatever the number of ranks.
void expect_twice_the_payload(const char* name, const MethodOptions& options, int ranks) {
  run_ranks(ranks, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const std::size_t n = 200'000;
    const auto method = make_model_method(name, options, {}, communicator, place);
    method->register_tensors(std::vector<Tensor>{{"all", n}});
    std::vector<float> model(n, 0.0F);
    method->start(model);
    StepReport report;
    for (std::uint32_t step = 0; step < 2; ++step) {
      auto gradient = normal_values(n, 100ULL * step + static_cast<std::uint64_t>(communicator.rank()));
      const StepKey key{1, step, static_cast<std::uint32_t>(communicator.rank())};
      report = method->step({.key = key, .learning_rate = 0.1F}, model, gradient);
    }
    EXPECT_LE(static_cast<double>(report.traffic.sent_bytes), 2.1 * static_cast<double>(report.traffic.payload_bytes))
        << name << ", " << ranks << " ranks, " << *options.values << ", " << *options.scope;
    EXPECT_GE(report.traffic.sent_bytes, report.traffic.payload_bytes) << name << ": something came back";
  });
}

TEST(CodedReturn, SendsAboutTwiceThePayloadForAnyNumberOfRanks) {
  for (const int ranks : {4, 8, 16}) {
    for (const char* values : {"sign", "two", "f32"}) {
      for (const char* scope : {"model", "chunk"}) {
        for (const char* method : {"topk", "def-topk"}) {
          expect_twice_the_payload(method, {.keep = 0.02, .scope = scope, .values = values, .return_ = "coded"}, ranks);
        }
      }
    }
  }
}

/// Before any memory is taken.
TEST(LongModels, AreRefusedWhereIndicesOf32BitsCannotNameTheirEntries) {
  run_ranks(1, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto refusal = [&](const char* name, const MethodOptions& options, std::span<const Tensor> tensors) {
      const auto method = make_model_method(name, options, {}, communicator, place);
      return message_of<InvalidConfig>([&] { method->register_tensors(tensors); });
    };
    const std::vector<Tensor> halves{{"first", 3'000'000'000}, {"second", 3'000'000'000}};
    const std::vector<Tensor> whole{{"whole", 6'000'000'000}};
    const std::string of_model = "the model must have at most 4294967295 entries for a list with 32-bit indices, got "
                                 "6000000000: set scope to tensor and return to full";
    for (const char* name : {"topk", "regtopk", "def-topk", "sparseloco"}) {
      EXPECT_TRUE(contains(refusal(name, {.scope = "model"}, halves), of_model)) << name;
      EXPECT_TRUE(contains(refusal(name, {.scope = "chunk"}, halves), of_model)) << name;
      EXPECT_TRUE(contains(refusal(name, {.scope = "tensor"}, whole), "tensor whole must have at most")) << name;
      const MethodOptions coded{.scope = "tensor", .return_ = "coded"};  // makes one list of the model
      EXPECT_TRUE(contains(refusal(name, coded, halves), of_model)) << name;
    }
    EXPECT_TRUE(contains(refusal("localsgd", {.keep = 0.1}, halves), of_model));
    EXPECT_TRUE(contains(refusal("randk", {}, halves), "randk takes models of up to 4294967295 parameters"));
  });
}

TEST(Resize, KeepsTheMeanOfWhatIsOwed) {
  // Four ranks become two: what is owed, the mean of the residuals, stays.
  const auto four = thread_communicators(4);
  const auto two = thread_communicators(2);
  run_ranks(4, [&](Communicator& world) {
    Place place({.threads = 1});
    Communicator& old_group = *four[static_cast<std::size_t>(world.rank())];
    const auto method = make_method("topk", {.keep = 0.1}, old_group, place);
    const auto n = size_of(small_model());
    method->register_tensors(small_model());
    for (std::uint32_t step = 0; step < 5; ++step) {
      auto gradient = integer_gradient(n, world.rank(), step);
      method->reduce({1, step, static_cast<std::uint32_t>(world.rank())}, gradient);
    }
    std::vector<float> residual(n);
    method->save().get("residual", residual);
    const auto owed = sum_everywhere(world, residual);
    const bool stays = world.rank() < 2;
    method->resize(stays ? two[static_cast<std::size_t>(world.rank())].get() : nullptr);
    if (!stays) return;
    method->save().get("residual", residual);
    for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(residual[i], owed[i] / 4, 1e-4) << i;
    auto gradient = integer_gradient(n, world.rank(), 9);
    method->reduce({1, 9, static_cast<std::uint32_t>(world.rank())}, gradient);
  });
}

TEST(Resize, ANewcomerTakesItsShareOfWhatIsOwed) {
  const auto old_group = thread_communicators(2);
  run_ranks(3, [&](Communicator& next) {
    Place place({.threads = 1});
    const auto alone = thread_communicators(1);
    const bool newcomer = next.rank() == 0;  // ranks may be numbered anew
    Communicator& first = newcomer ? *alone[0] : *old_group[static_cast<std::size_t>(next.rank() - 1)];
    const auto method = make_method("regtopk", {.keep = 0.6, .mu = 1}, first, place);
    method->register_tensors(small_model());
    const auto n = size_of(small_model());
    std::vector<float> residual(n, 0.0F);
    if (!newcomer) {
      for (std::uint32_t step = 0; step < 5; ++step) {
        auto gradient = integer_gradient(n, next.rank(), step);
        method->reduce({1, step, static_cast<std::uint32_t>(first.rank())}, gradient);
      }
      method->save().get("residual", residual);
    }
    const auto owed = sum_everywhere(next, residual);
    method->resize(&next);
    EXPECT_EQ(method->save().number("support known"), 0.0) << "the last support was of other workers";
    method->save().get("residual", residual);
    for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(residual[i], owed[i] / 2, 1e-4) << i;
    // It goes on as three workers do, whose weight is a third, from what they owe now.
    std::vector<SparseModel> models(3, {.keep = 0.6, .mu = 1.0});
    for (SparseModel& model : models) {
      model.residual.assign(residual.begin(), residual.end());
      model.last_mask.assign(n, false);
    }
    for (std::uint32_t step = 9; step < 19; ++step) {
      std::vector<std::vector<float>> gradients;
      for (std::uint64_t rank = 0; rank < 3; ++rank) gradients.push_back(normal_values(n, 100 * step + rank));
      const auto mean = sparse_mean(models, gradients);
      auto gradient = gradients[static_cast<std::size_t>(next.rank())];
      method->reduce({1, step}, gradient);
      EXPECT_TRUE(same_everywhere(next, gradient));
      for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(gradient[i], mean[i], 1e-4) << "step " << step << " entry " << i;
    }
  });
}

TEST(Resize, ANewcomerToALiftedMethodHasTheOptimizersMemory) {
  const auto old_group = thread_communicators(1);
  run_ranks(2, [&](Communicator& next) {
    Place place({.threads = 1});
    const auto alone = thread_communicators(1);
    const bool newcomer = next.rank() == 1;
    Communicator& first = newcomer ? *alone[0] : *old_group[0];
    const auto method = make_model_method("sgd", {}, {.name = "adam"}, first, place);
    method->register_tensors(small_model());
    std::vector<float> model(size_of(small_model()), 0.5F);
    if (!newcomer) method->start(model);
    for (std::uint32_t step = 0; step < 5 && !newcomer; ++step) {
      auto gradient = pull_gradient(model, 0, step);
      method->step({{1, step, 0}, 0.01F}, model, gradient);
    }
    next.broadcast(as_writable_bytes(View<float>(model)), 0).wait();
    method->resize(&next);
    method->start(model);
    for (std::uint32_t step = 5; step < 8; ++step) {
      auto gradient = pull_gradient(model, next.rank(), step);
      method->step({{1, step, static_cast<std::uint32_t>(next.rank())}, 0.01F}, model, gradient);
      ASSERT_TRUE(same_everywhere(next, model)) << "step " << step;
    }
  });
}

}  // namespace
}  // namespace laconic::test
