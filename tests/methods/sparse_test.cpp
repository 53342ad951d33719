// Top-k, RegTop-k and the dense baselines against float64 models written from their pages.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/support.h"

namespace laconic::test {
namespace {

using Numbers = std::vector<double>;

Numbers as_double(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// Indices of the k largest scores, equals by lowest index, ascending.
std::vector<std::size_t> largest(const Numbers& scores, std::size_t begin, std::size_t end, std::size_t k) {
  std::vector<std::size_t> order(end - begin);
  std::iota(order.begin(), order.end(), begin);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

/// The page's steps 1 to 5 for one worker, in float64. mu = 0 is plain top-k.
struct SparseModel {
  double keep;
  double mu = 0.0;
  bool current = false;
  bool by_tensor = false;
  Numbers residual{};
  Numbers last_a{};
  Numbers last_aggregate{};
  std::vector<bool> last_mask{};

  /// Returns what the worker sends, dense.
  Numbers send(const Numbers& gradient, double weight) {
    const std::size_t n = gradient.size();
    if (residual.empty()) residual.assign(n, 0.0), last_mask.assign(n, false), last_a.assign(n, 0.0);
    Numbers a(n);
    Numbers score(n);
    for (std::size_t i = 0; i < n; ++i) {
      a[i] = gradient[i] + residual[i];
      double regularizer = 1.0;
      if (mu > 0.0 && last_mask[i]) {
        const double divisor = weight * (current ? a[i] : last_a[i]);
        if (divisor != 0.0) {
          const double distortion = (last_aggregate[i] - weight * last_a[i]) / divisor;
          regularizer = std::tanh(std::abs(1.0 + distortion) / mu);
        }
      }
      score[i] = std::abs(a[i]) * regularizer;
    }
    Numbers sent(n, 0.0);
    last_mask.assign(n, false);
    const auto select = [&](std::size_t begin, std::size_t end) {
      const auto k = std::max<std::size_t>(1, static_cast<std::size_t>(keep * static_cast<double>(end - begin)));
      for (const std::size_t i : largest(score, begin, end, k)) sent[i] = a[i], last_mask[i] = true;
    };
    if (by_tensor) {
      std::size_t offset = 0;
      for (const Tensor& tensor : small_model()) select(offset, offset + tensor.size), offset += tensor.size;
    } else {
      select(0, n);
    }
    for (std::size_t i = 0; i < n; ++i) residual[i] = a[i] - sent[i];
    last_a = a;
    return sent;
  }
};

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
      const auto gradient_of = [&](int rank) {
        return integers ? integer_gradient(n, rank, step)
                        : normal_values(n, 1000ULL * step + static_cast<std::uint64_t>(rank));
      };
      Numbers mean(n, 0.0);
      for (int rank = 0; rank < workers; ++rank) {
        const auto sent = models[static_cast<std::size_t>(rank)].send(as_double(gradient_of(rank)), 1.0 / workers);
        for (std::size_t i = 0; i < n; ++i) mean[i] += sent[i];
      }
      for (double& value : mean) value /= workers;
      for (auto& model : models) model.last_aggregate = mean;

      auto gradient = gradient_of(communicator.rank());
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

TEST(Topk, KeepsSixteenBitRoundingInTheResidual) {
  run_ranks(2, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method("topk", {.keep = 0.1, .values = "bf16"}, communicator, place);
    const std::size_t n = 1000;
    std::vector<double> total(n, 0.0);
    std::vector<double> delivered(n, 0.0);
    for (std::uint32_t step = 0; step < 30; ++step) {
      auto gradient = normal_values(n, step * 2 + static_cast<std::uint64_t>(communicator.rank()));
      const auto came = sum_everywhere(communicator, gradient);
      method->reduce({1, step, static_cast<std::uint32_t>(communicator.rank())}, gradient);
      for (std::size_t i = 0; i < n; ++i) total[i] += came[i], delivered[i] += 2.0 * static_cast<double>(gradient[i]);
    }
    std::vector<float> residual(n);
    method->save().get("residual", residual);
    const auto owed = sum_everywhere(communicator, residual);
    // The mean itself comes back in bf16: relative error 2^-9 of what was delivered, step by step.
    for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(delivered[i] + owed[i], total[i], 0.3) << i;
  });
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
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(std::round(static_cast<double>(gradient[i]) * 4) + still_owed[i], came[i] + owed[i]) << i;
      }
    }
  });
}

TEST(Half, IsTheMeanToSixteenBits) {
  for (const auto& [name, error] : {std::pair{"fp16", 1.0 / 1024}, std::pair{"bf16", 1.0 / 128}}) {
    run_ranks(3, [&](Communicator& communicator) {
      Place place({.threads = 1});
      const auto method = make_method(name, {}, communicator, place);
      const std::size_t n = 1000;
      auto gradient = normal_values(n, static_cast<std::uint64_t>(communicator.rank()));
      const auto sum = sum_everywhere(communicator, gradient);
      method->reduce({1, 0, static_cast<std::uint32_t>(communicator.rank())}, gradient);
      for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(gradient[i], sum[i] / 3, 4.0 * error) << name;
    });
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
    const auto method = make_method("regtopk", {.keep = 0.1}, first, place);
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
    auto gradient = integer_gradient(n, next.rank(), 9);
    method->reduce({1, 9, static_cast<std::uint32_t>(next.rank())}, gradient);
    EXPECT_TRUE(same_everywhere(next, gradient));
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
    for (std::uint32_t step = 0; step < 5 && !newcomer; ++step) {
      auto gradient = pull_gradient(model, 0, step);
      method->step({{1, step, 0}, 0.01F}, model, gradient);
    }
    next.broadcast(as_writable_bytes(View<float>(model)), 0).wait();
    method->resize(&next);
    for (std::uint32_t step = 5; step < 8; ++step) {
      auto gradient = pull_gradient(model, next.rank(), step);
      method->step({{1, step, static_cast<std::uint32_t>(next.rank())}, 0.01F}, model, gradient);
      ASSERT_TRUE(same_everywhere(next, model)) << "step " << step;
    }
  });
}

}  // namespace
}  // namespace laconic::test
