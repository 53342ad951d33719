// QSGD, TernGrad and DQ-SGD on real values against float64 models of their page: every norm and scope, every source of
// DQ-SGD's norm and every way to say its factor. 50 steps, three workers, agreement to float rounding.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "laconic/threads.h"
#include "methods/quantizer_model.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr int kWorkers = 3;
constexpr std::uint32_t kSteps = 50;
constexpr std::uint64_t kSeed = 4;

/// Falls by a factor of twenty and grows again a little; ranks differ.
std::vector<std::vector<float>> gradients_of(std::uint32_t step) {
  std::vector<std::vector<float>> all;
  for (int rank = 0; rank < kWorkers; ++rank) {
    all.push_back(normal_values(size_of(small_model()), 1000ULL * step + static_cast<std::uint64_t>(rank)));
    const float fall = std::exp(-0.06F * static_cast<float>(step)) + 0.02F * std::sin(static_cast<float>(step));
    for (float& value : all.back()) value *= fall * (1.0F + 0.25F * static_cast<float>(rank));
  }
  return all;
}

/// Returns entries that were too near to call.
int expect_equal(const std::vector<float>& aggregate, const QuantizerModel::Mean& mean, std::uint32_t step) {
  int open = 0;
  for (std::size_t i = 0; i < aggregate.size(); ++i) {
    if (mean.open[i]) {
      ++open;
      continue;
    }
    // The norm, a level's value and W sums are each rounded once.
    const double allowed = mean.magnitude[i] * std::ldexp(8.0, -24);
    EXPECT_LE(std::abs(static_cast<double>(aggregate[i]) - mean.values[i]), allowed) << "step " << step << ", " << i;
  }
  return open;
}

QuantizerModel model_of(const std::string& name, const MethodOptions& options) {
  const bool chunks = options.scope == "chunk";
  return {.max_norm = name == "terngrad" || options.norm.value_or(chunks ? "max" : "l2") == "max",
          .by_tensor = options.scope.value_or("tensor") == "tensor",
          .chunk = options.scope == "chunk" ? static_cast<std::uint64_t>(options.chunk.value_or(256)) : 0,
          .nearest = options.rounding == "nearest",
          .requantizes = options.return_ == "requantized",
          .seed = kSeed};
}

void check_fixed(const char* name, const MethodOptions& options, int bits) {
  SCOPED_TRACE(std::string(name) + " " + std::to_string(bits) + " bit, norm " + options.norm.value_or("default") +
               ", scope " + options.scope.value_or("default"));
  run_ranks(kWorkers, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method(name, options, communicator, place);
    method->register_tensors(small_model());
    int open = 0;
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const auto gradients = gradients_of(step);
      auto aggregate = gradients[static_cast<std::size_t>(communicator.rank())];
      const StepKey key{kSeed, step, static_cast<std::uint32_t>(communicator.rank())};
      EXPECT_EQ(method->reduce(key, aggregate).bits, bits);
      open += expect_equal(aggregate, model_of(name, options).mean(gradients, bits, step), step);
    }
    EXPECT_LE(open, 10);  // of 337,650
  });
}

TEST(QuantizedTrajectory, QsgdWithEitherNormAndScope) {
  for (const char* norm : {"l2", "max"}) {
    for (const char* scope : {"tensor", "model"}) check_fixed("qsgd", {.scope = scope, .bits = 4, .norm = norm}, 4);
  }
  check_fixed("qsgd", {.bits = 8}, 8);
  check_fixed("qsgd", {.scope = "model", .route = "scatter", .bits = 5}, 5);
}

TEST(QuantizedTrajectory, TerngradWithEitherScope) {
  for (const char* scope : {"tensor", "model", "chunk"}) check_fixed("terngrad", {.scope = scope}, 2);
}

TEST(QuantizedTrajectory, QsgdByChunk) {
  for (const double chunk : {64.0, 256.0, 1024.0}) check_fixed("qsgd", {.scope = "chunk", .chunk = chunk}, 4);
  check_fixed("qsgd", {.scope = "chunk", .route = "scatter", .bits = 3, .norm = "l2"}, 3);
}

/// What every rank has in `values`, by rank.
std::vector<std::vector<float>> gathered(Communicator& communicator, const std::vector<float>& values) {
  std::vector<float> all(values.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(as_bytes(View<const float>(values)), as_writable_bytes(View<float>(all))).wait();
  std::vector<std::vector<float>> by_rank;
  for (auto next = all.begin(); next != all.end(); next += static_cast<std::ptrdiff_t>(values.size())) {
    by_rank.emplace_back(next, next + static_cast<std::ptrdiff_t>(values.size()));
  }
  return by_rank;
}

/// Error feedback: each step's mean and rests are those of the gradients and what was owed before, in float64. The
/// rests that go on are the method's own, so that one that is too near to call does not part the two for good.
void check_memory(const char* name, const MethodOptions& options, int bits, QuantizerModel model) {
  SCOPED_TRACE(std::string(name) + ", scope " + options.scope.value_or("default") + ", rounding " +
               options.rounding.value_or("default") + ", return " + options.return_.value_or("default"));
  run_ranks(kWorkers, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method(name, options, communicator, place);
    method->register_tensors(small_model());
    const auto me = static_cast<std::size_t>(communicator.rank());
    std::vector<float> residual(size_of(small_model()), 0.0F);
    int open = 0;
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const auto owed = gathered(communicator, residual);
      const auto gradients = gradients_of(step);
      auto given = gradients;
      for (std::size_t rank = 0; rank < given.size(); ++rank) {
        for (std::size_t i = 0; i < residual.size(); ++i) given[rank][i] += owed[rank][i];
      }
      auto aggregate = gradients[me];
      const StepReport report = method->reduce({kSeed, step, static_cast<std::uint32_t>(me)}, aggregate);
      ASSERT_TRUE(bits == 0 || report.bits == bits);
      const auto mean = model.mean(given, static_cast<int>(report.bits), step);
      open += expect_equal(aggregate, mean, step);
      method->save().get("residual", residual);
      for (std::size_t i = 0; i < residual.size(); ++i) {
        if (mean.open[i]) continue;
        const double allowed = mean.rest_magnitude[i] * std::ldexp(8.0, -24);
        const double found = static_cast<double>(residual[i]);
        ASSERT_LE(std::abs(found - mean.rests[me][i]), allowed) << "step " << step << ", " << i;
      }
    }
    EXPECT_LE(open, 2000);  // of 337,650: one that is too near to call makes its scope so, where sums are rounded again
  });
}

TEST(QuantizedTrajectory, ErrorFeedbackWithEveryScopeAndRounding) {
  for (const char* scope : {"tensor", "model", "chunk"}) {
    for (const char* rounding : {"stochastic", "nearest"}) {
      const MethodOptions options{.scope = scope, .bits = 4, .norm = "max", .rounding = rounding, .memory = "error"};
      check_memory("qsgd", options, 4, model_of("qsgd", options));
    }
  }
  const MethodOptions ternary{.scope = "chunk", .rounding = "nearest", .memory = "error"};
  check_memory("terngrad", ternary, 2, model_of("terngrad", ternary));
  const MethodOptions dynamic{.scope = "chunk", .rounding = "nearest", .memory = "error", .tau = 0.7};
  check_memory("dqsgd", dynamic, 0, model_of("dqsgd", dynamic));
}

TEST(QuantizedTrajectory, BlockQuant) {
  const QuantizerModel model{
      .max_norm = true, .by_tensor = false, .chunk = 256, .nearest = true, .requantizes = true, .seed = kSeed};
  check_memory("block-quant", {}, 4, model);
  check_memory("block-quant", {.bits = 3}, 3, model);
  QuantizerModel other = model;
  other.nearest = false;
  check_memory("block-quant", {.rounding = "stochastic"}, 4, other);
  other = model;
  other.chunk = 1024;
  check_memory("block-quant", {.chunk = 1024}, 4, other);
  other = model;
  other.requantizes = false;
  check_memory("block-quant", {.route = "gather", .return_ = "full"}, 4, other);
}

/// The norm that the rule goes by, step by step, as the page says.
class NormModel {
 public:
  NormModel(std::string source, std::size_t window) : source_(std::move(source)), window_(window) {}

  double next(const std::vector<std::vector<float>>& gradients) {
    workers_ = 0.0;
    for (const auto& gradient : gradients) workers_ += l2_norm(gradient) / static_cast<double>(gradients.size());
    if (source_ == "exact" || known_.empty()) return workers_;
    const std::size_t count = std::min(window_, known_.size());
    return std::accumulate(known_.end() - static_cast<std::ptrdiff_t>(count), known_.end(), 0.0) /
           static_cast<double>(count);
  }
  void learn(const std::vector<double>& aggregate) {
    known_.push_back(source_ == "aggregate" ? l2_norm(aggregate) : workers_);
  }

 private:
  std::string source_;
  std::size_t window_;
  double workers_ = 0.0;
  std::vector<double> known_;
};

/// Without a model of the rule, as with a bit budget (bit_rule_test.cpp), the method's own width is taken. Returns the
/// mean width.
double check_dynamic(const MethodOptions& options, const std::optional<BitRuleModel>& rule = {}) {
  const std::string source = options.norm_source.value_or("workers");
  const auto window = static_cast<std::size_t>(options.window.value_or(50.0));
  std::vector<double> mean_bits(kWorkers, 0.0);
  run_ranks(kWorkers, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method("dqsgd", options, communicator, place);
    method->register_tensors(small_model());
    NormModel norms(source, window);
    std::set<int> widths;
    int open = 0;
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const auto gradients = gradients_of(step);
      const double norm = norms.next(gradients);
      auto aggregate = gradients[static_cast<std::size_t>(communicator.rank())];
      const StepKey key{kSeed, step, static_cast<std::uint32_t>(communicator.rank())};
      const StepReport report = method->reduce(key, aggregate);
      const int bits = rule ? rule->bits(norm, step) : static_cast<int>(report.bits);
      ASSERT_EQ(report.bits, bits) << "step " << step << ", norm " << norm;
      ASSERT_NEAR(report.extra, norm, 1e-5 * norm) << "step " << step;
      const auto mean = model_of("dqsgd", options).mean(gradients, bits, step);
      open += expect_equal(aggregate, mean, step);
      norms.learn(mean.values);
      widths.insert(bits);
      mean_bits[static_cast<std::size_t>(communicator.rank())] += report.bits / kSteps;
    }
    EXPECT_LE(open, 10);
    EXPECT_GE(widths.size(), 2U) << "the width must change on the way";
  });
  for (const double each : mean_bits) EXPECT_EQ(each, mean_bits.front()) << "one width for all ranks";
  return mean_bits.front();
}

TEST(QuantizedTrajectory, DqsgdByEverySourceOfItsNorm) {
  for (const char* source : {"workers", "aggregate"}) {
    for (const double window : {5.0, 50.0}) {
      SCOPED_TRACE(source);
      check_dynamic({.tau = 0.7, .norm_source = source, .window = window}, BitRuleModel{.factor = 0.7});
    }
  }
  check_dynamic({.tau = 0.7, .norm_source = "exact"}, BitRuleModel{.factor = 0.7});
}

TEST(QuantizedTrajectory, DqsgdWithEitherNormAndScope) {
  for (const char* norm : {"l2", "max"}) {
    for (const char* scope : {"tensor", "model"}) {
      SCOPED_TRACE(std::string(norm) + " " + scope);
      check_dynamic({.scope = scope, .norm = norm, .tau = 0.7, .norm_source = "exact"}, BitRuleModel{.factor = 0.7});
    }
  }
}

// The page's formulas: τ = sqrt(L d η / (6 (2 − Lη) ε)), κ = sqrt(N L d η² / (12 ε)), α = 1 − 2μη + Lμη².
constexpr double kSmoothness = 2.0;
constexpr double kConvexity = 0.5;
constexpr double kStepSize = 0.1;
const double kAlpha = 1.0 - 2.0 * kConvexity * kStepSize + kSmoothness * kConvexity * kStepSize * kStepSize;

MethodOptions convex_options() {
  return {.rule = "convex",
          .smoothness = kSmoothness,
          .convexity = kConvexity,
          .step_size = kStepSize,
          .total_steps = kSteps};
}

TEST(QuantizedTrajectory, DqsgdFromAnErrorBudget) {
  const auto d = static_cast<double>(size_of(small_model()));
  const double budget = 85.0;
  const double tau = std::sqrt(kSmoothness * d * kStepSize / (6.0 * (2.0 - kSmoothness * kStepSize) * budget));
  check_dynamic({.error_budget = budget, .smoothness = kSmoothness, .step_size = kStepSize},
                BitRuleModel{.factor = tau});
}

TEST(QuantizedTrajectory, DqsgdByTheConvexRule) {
  MethodOptions options = convex_options();
  options.kappa = 6.0;
  check_dynamic(options, BitRuleModel{.factor = 6.0, .alpha = kAlpha, .total_steps = kSteps});
  options.norm_source = "aggregate";
  options.window = 3;
  check_dynamic(options, BitRuleModel{.factor = 6.0, .alpha = kAlpha, .total_steps = kSteps});
}

TEST(QuantizedTrajectory, DqsgdByTheConvexRuleFromAnErrorBudget) {
  const auto d = static_cast<double>(size_of(small_model()));
  MethodOptions options = convex_options();
  options.error_budget = 5.0;
  const double kappa = std::sqrt(kSteps * kSmoothness * d * kStepSize * kStepSize / (12.0 * 5.0));
  options.norm_source = "exact";
  check_dynamic(options, BitRuleModel{.factor = kappa, .alpha = kAlpha, .total_steps = kSteps});
}

TEST(QuantizedTrajectory, DqsgdFromABitBudget) {
  const double exact = check_dynamic({.bit_budget = 5.5, .norm_source = "exact", .total_steps = kSteps});
  EXPECT_NEAR(exact, 5.5, 0.05);
  MethodOptions options = convex_options();
  options.bit_budget = 6.0;
  EXPECT_NEAR(check_dynamic(options), 6.0, 0.05);
  EXPECT_NEAR(check_dynamic({.bit_budget = 5.5}), 5.5, 5.5 - 2.0);  // no end is known: a window of 50 steps is
}

}  // namespace
}  // namespace laconic::test
