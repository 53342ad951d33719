// No method allocates after its first step, or the first period of a round method: for every row of the table, every
// choice of every word, and the numbers that switch something on.

#include <gtest/gtest.h>

#include "laconic/threads.h"
#include "methods/resume_check.h"
#include "support/support.h"

namespace laconic::test {
namespace {

void check_allocations(Communicator& communicator, const MethodRow& row, const MethodOptions& options,
                       const OptimizerOptions& optimizer = {}) {
  constexpr std::uint32_t kSteps = 14;
  Worker worker(row, options, communicator, optimizer);
  worker.method->set_scoring([](View<const float> point, View<float> gradient) {
    for (std::size_t i = 0; i < point.size(); ++i) gradient[i] = point[i];
  });
  // Drawn beforehand: other values on every rank and in every step, so that payloads differ in length.
  std::vector<std::vector<float>> gradients;
  for (std::uint32_t number = 0; number < kSteps; ++number) {
    gradients.push_back(integer_gradient(worker.model.size(), communicator.rank(), number));
  }
  const auto step = [&](std::uint32_t number) {
    worker.method->step({{42, number, static_cast<std::uint32_t>(communicator.rank())}, 0.01F, 0.0F}, worker.model,
                        gradients[number]);
  };
  // One step warms a method that exchanges in every one; others need their period.
  const auto warm = static_cast<std::uint32_t>(options.period.value_or(options.local_steps.value_or(1.0)));
  for (std::uint32_t number = 0; number < warm; ++number) step(number);
  communicator.barrier().wait();
  const auto before = allocation_count();
  communicator.barrier().wait();
  for (std::uint32_t number = warm; number < kSteps; ++number) step(number);
  communicator.barrier().wait();
  EXPECT_EQ(allocation_count(), before) << row.name << " with " << optimizer.name;
  communicator.barrier().wait();
}

TEST(Allocation, NoMethodAllocatesAfterItsFirstStep) {
  for (const MethodRow& row : method_table()) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      SCOPED_TRACE(std::string(row.name) + " on " + std::to_string(ranks) + " ranks");
      run_ranks(ranks, [&](Communicator& communicator) { check_allocations(communicator, row, small_options(row)); });
    }
  }
}

TEST(Allocation, NorWithAnyChoiceOfAWord) {
  const auto choices = every_word_choice();
  EXPECT_GT(choices.size(), 40U);
  for (const WordChoice& choice : choices) {
    for (const int ranks : {1, 3}) {
      SCOPED_TRACE(choice.description + " on " + std::to_string(ranks) + " ranks");
      run_ranks(ranks,
                [&](Communicator& communicator) { check_allocations(communicator, *choice.row, choice.options); });
    }
  }
}

TEST(Allocation, NorWithNumbersThatSwitchSomethingOn) {
  const std::vector<std::pair<const char*, MethodOptions>> cases{
      {"signsgd", {.abstain = 0.5}},
      {"signum", {.abstain = 0.5}},
      {"signum", {.early_sign = 6}},
      {"signum", {.turns = 3}},
      {"def", {.ratio = 8, .momentum = 0.9, .weight_decay = 0.01, .local_steps = 3}},
      {"def-a", {.ratio = 8, .local_steps = 3, .diagnose = "on"}},
      {"ef-rbgs", {.ratio = 8, .momentum = 0.9}},
      {"def-topk", {.keep = 0.1, .outer_momentum = 0.9, .period = 3}},
      {"sparseloco", {.keep = 0.1, .lambda = 0.5, .period = 3}},
      {"dqsgd", {.bit_budget = 5.5}},
      {"dqsgd", {.norm_source = "aggregate", .window = 3}},
      {"dqsgd", {.error_budget = 0.5, .smoothness = 2, .step_size = 0.1}},
      {"mgrawa", {.total_steps = 50, .period = 4, .score = "local"}}};
  for (const auto& [name, options] : cases) {
    SCOPED_TRACE(name);
    run_ranks(3, [&](Communicator& communicator) { check_allocations(communicator, method_row(name), options); });
  }
}

TEST(Allocation, NorWithAnyOptimizer) {
  const std::vector<OptimizerOptions> optimizers{{.momentum = 0.9, .weight_decay = 0.01},
                                                 {.momentum = 0.9, .nesterov = true},
                                                 {.name = "adam", .weight_decay = 0.01},
                                                 {.name = "adamw", .weight_decay = 0.01}};
  for (const char* name :
       {"sgd", "topk", "regtopk", "signum", "psync", "localsgd", "def", "def-topk", "diloco", "sparseloco"}) {
    MethodOptions options = small_options(method_row(name));
    if (std::string_view(name) == "regtopk") options.step_guard = "on";  // keeps a copy of the moments
    for (const OptimizerOptions& optimizer : optimizers) {
      SCOPED_TRACE(std::string(name) + " with " + optimizer.name);
      run_ranks(3, [&](Communicator& communicator) {
        check_allocations(communicator, method_row(name), options, optimizer);
      });
    }
  }
}

}  // namespace
}  // namespace laconic::test
