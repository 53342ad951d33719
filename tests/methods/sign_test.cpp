// signSGD and Signum against a float64 model written from their page.

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/support.h"

namespace laconic::test {
namespace {

struct SignModel {
  double beta = 0.0;
  double abstain = 0.0;
  std::uint32_t early = 0;
  bool plus = false;
  std::uint32_t turns = 1;
};

/// Whether a tie on entry i of a stream falls to minus.
bool coin(const RandomStream& stream, std::size_t i) { return (draw32(stream, i / 32) >> (i % 32) & 1U) != 0; }

void compare(const char* name, const MethodOptions& options, const SignModel& model, int workers) {
  run_ranks(workers, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method(name, options, communicator, place);
    method->register_tensors(small_model());
    const auto n = size_of(small_model());
    std::vector<std::vector<double>> momenta(static_cast<std::size_t>(workers), std::vector<double>(n, 0.0));
    for (std::uint32_t step = 0; step < 50; ++step) {
      std::vector<int> plus(n, 0);
      std::vector<int> minus(n, 0);
      for (int rank = 0; rank < workers; ++rank) {
        const auto gradient = normal_values(n, 77ULL * step + static_cast<std::uint64_t>(rank));
        auto& v = momenta[static_cast<std::size_t>(rank)];
        double mean = 0.0;
        for (std::size_t i = 0; i < n; ++i) {
          v[i] = model.beta * v[i] + (1.0 - model.beta) * static_cast<double>(gradient[i]);
        }
        std::vector<double> voting(n);
        for (std::size_t i = step % model.turns; i < n; i += model.turns) {
          voting[i] = step < model.early ? static_cast<double>(gradient[i]) : v[i];
          mean += std::abs(voting[i]) / static_cast<double>((n + model.turns - 1) / model.turns);
        }
        for (std::size_t i = step % model.turns; i < n; i += model.turns) {
          if (std::abs(voting[i]) < model.abstain * mean) continue;
          (voting[i] < 0.0 ? minus : plus)[i] += 1;
        }
      }
      auto gradient = normal_values(n, 77ULL * step + static_cast<std::uint64_t>(communicator.rank()));
      method->reduce({9, step, static_cast<std::uint32_t>(communicator.rank())}, gradient);
      std::size_t offset = 0;
      std::uint32_t tensor = 0;
      for (const Tensor& each : small_model()) {
        const RandomStream stream{9, step, kSharedRank, tensor++, Purpose::vote_ties};
        for (std::size_t i = 0; i < each.size; ++i) {
          const std::size_t at = offset + i;
          float expected = plus[at] > minus[at] ? 1.0F : -1.0F;
          if (plus[at] == minus[at]) {
            const bool drawn_minus = model.turns == 1 ? coin(stream, i) : coin(stream.of_tensor(0), at / model.turns);
            expected = plus[at] == 0 ? 0.0F : !model.plus && drawn_minus ? -1.0F : 1.0F;
          }
          expected *= static_cast<float>(model.turns);
          ASSERT_EQ(gradient[at], expected) << "step " << step << " entry " << at;
        }
        offset += each.size;
      }
    }
  });
}

TEST(Sign, SignsgdEqualsItsPage) { compare("signsgd", {}, {}, 3); }
TEST(Sign, SignumEqualsItsPage) { compare("signum", {}, {.beta = 0.9F}, 3); }
TEST(Sign, EvenVotesFallAsDrawn) { compare("signum", {}, {.beta = 0.9F}, 4); }
TEST(Sign, EvenVotesFallAsDrawnWithoutMomentum) { compare("signsgd", {}, {}, 4); }
TEST(Sign, EvenVotesFallToPlusWhereAsked) {
  compare("signsgd", {.ties = "plus"}, {.plus = true}, 4);
  compare("signum", {.ties = "plus"}, {.beta = 0.9F, .plus = true}, 4);
}
TEST(Sign, EntriesTakeTurns) {
  compare("signum", {.turns = 4}, {.beta = 0.9F, .turns = 4}, 3);
  compare("signum", {.turns = 7}, {.beta = 0.9F, .turns = 7}, 4);
  compare("signum", {.beta = 0, .turns = 5}, {.turns = 5}, 3);
  compare("signum", {.abstain = 0.5, .turns = 3}, {.beta = 0.9F, .abstain = 0.5, .turns = 3}, 3);
}
// An entry whose turn has not come would otherwise carry NaN into the momentum.
TEST(Sign, TurnsLookAtTheWholeGradient) {
  run_ranks(2, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method("signum", {.turns = 4}, communicator, place);
    method->register_tensors(std::vector<Tensor>{{"weight", 10}});
    method->set_nonfinite_policy(NonfinitePolicy::skip);
    std::vector<float> gradient(10, 1.0F);
    if (communicator.rank() == 1) gradient[3] = std::nanf("");
    EXPECT_TRUE(method->reduce({1, 0, static_cast<std::uint32_t>(communicator.rank())}, gradient).skipped);
    std::fill(gradient.begin(), gradient.end(), 1.0F);
    EXPECT_FALSE(method->reduce({1, 1, static_cast<std::uint32_t>(communicator.rank())}, gradient).skipped);
    EXPECT_EQ(gradient, (std::vector<float>{4, 0, 0, 0, 4, 0, 0, 0, 4, 0}));  // a skipped step takes nobody's turn
  });
}
TEST(Sign, EarlyStepsVoteWithTheGradient) { compare("signum", {.early_sign = 20}, {.beta = 0.9F, .early = 20}, 3); }
TEST(Sign, SmallEntriesAbstain) {
  compare("signum", {.abstain = 0.5}, {.beta = 0.9F, .abstain = 0.5}, 3);
  compare("signsgd", {.abstain = 2.0}, {.abstain = 2.0}, 4);
  compare("signsgd", {.abstain = 0.7}, {.abstain = 0.7}, 1);
  compare("signum", {.ties = "plus", .abstain = 0.5}, {.beta = 0.9F, .abstain = 0.5, .plus = true}, 4);
}

TEST(Sign, SendsOneBitBothWaysAndTwoWithAbstentions) {
  run_ranks(4, [](Communicator& communicator) {
    Place place({.threads = 1});
    const std::size_t n = 1'000'000;
    std::vector<float> gradient(n, 1.0F);
    for (const auto& [abstain, bits] : {std::pair{0.0, 1.5}, std::pair{0.5, 3.0}}) {
      const auto method = make_method("signsgd", {.abstain = abstain}, communicator, place);
      const auto report = method->reduce({1, 0, static_cast<std::uint32_t>(communicator.rank())}, gradient);
      EXPECT_NEAR(8.0 * static_cast<double>(report.traffic.sent_bytes) / n, bits, 0.02);
    }
  });
}

}  // namespace
}  // namespace laconic::test
