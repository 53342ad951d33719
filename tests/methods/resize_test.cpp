// Ranks come and go in every method of the table: afterwards all ranks count alike and share the same bits.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ostream>

#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/support.h"

namespace laconic::test {
namespace {

struct Case {
  std::string name;
  const MethodRow* row;
  MethodOptions options;
  OptimizerOptions optimizer;
};

void PrintTo(const Case& the_case, std::ostream* out) { *out << the_case.name; }

/// Every row, and the settings under which a method counts something.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& suffix, const MethodRow& row, const MethodOptions& options,
                       const OptimizerOptions& optimizer) {
    cases.push_back({test_name(row.name + suffix), &row, options, optimizer});
  };
  for (const MethodRow& row : method_table()) {
    const bool adam = std::string_view(row.name) == "adam";
    add("", row, small_options(row), {.momentum = adam ? 0.0 : 0.9});
  }
  add("_budget", method_row("dqsgd"), {.bit_budget = 4.0}, {});
  add("_aggregate", method_row("dqsgd"), {.norm_source = "aggregate"}, {});
  add("_memory", method_row("dqsgd"), {.memory = "error"}, {});
  add("_memory", method_row("qsgd"), {.scope = "chunk", .rounding = "nearest", .memory = "error"}, {});
  add("_early", method_row("signum"), {.early_sign = 7}, {});
  add("_turns", method_row("signum"), {.turns = 3}, {});
  add("_guard", method_row("regtopk"), {.keep = 0.1, .step_guard = "on"}, {});
  add("_adam", method_row("topk"), {.keep = 0.1}, {.name = "adam"});
  for (const MethodRow& row : method_table()) {
    if (!sends_all(row)) continue;
    add("_bf16", row, {.values = "bf16", .period = 4}, {.momentum = 0.9});
    add("_signs", row, {.keep = 0.25, .values = "sign", .period = 4}, {.momentum = 0.9});
  }
  add("_adamw", method_row("def"), {.ratio = 8}, {.name = "adamw", .weight_decay = 0.01});
  add("_adamw", method_row("def-topk"), {.keep = 0.1, .period = 3}, {.name = "adamw", .weight_decay = 0.01});
  return cases;
}

class EveryResize : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Table, EveryResize, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& test) { return test.param.name; });

/// The numbers that a state of this method may have and that are the same on all ranks, as bits.
std::vector<float> counts_of(const ModelMethod& method, bool lifted) {
  const State whole = method.save();
  std::vector<State> states{whole};
  if (lifted) states.insert(states.end(), {whole.nested("inner"), whole.nested("optimizer")});
  std::vector<float> bits;
  for (const State& state : states) {
    for (const char* name :
         {"steps", "rounds", "largest step", "rule's steps", "rule's bits", "rule's exponent", "norms known"}) {
      if (!state.has(name)) continue;
      const double value = state.number(name);
      bits.resize(bits.size() + 2);
      std::memcpy(&bits[bits.size() - 2], &value, sizeof value);
    }
  }
  return bits;
}

/// Whether at least a tenth of the entries are the same on all ranks: what one step of psync averages.
bool shares_a_block(Communicator& communicator, const std::vector<float>& model) {
  std::vector<float> all(model.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(as_bytes(View<const float>(model)), as_writable_bytes(View<float>(all))).wait();
  std::size_t same = 0;
  for (std::size_t i = 0; i < model.size(); ++i) {
    bool here = true;
    for (std::size_t j = i; j < all.size(); j += model.size()) here = here && all[j] == model[i];
    same += here ? 1 : 0;
  }
  return same >= model.size() / 10;
}

void check_shared(Communicator& communicator, const Case& the_case, const ModelMethod& method,
                  const std::vector<float>& model, const StepReport& report) {
  const State state = method.save();
  if (the_case.row->face == Face::gradient) {
    ASSERT_TRUE(same_everywhere(communicator, model));
  } else if (state.size("point") > 0) {
    std::vector<float> point(model.size());
    state.get("point", point);
    ASSERT_TRUE(same_everywhere(communicator, point));
  } else if (state.size("centre") == 0) {
    ASSERT_TRUE(shares_a_block(communicator, model));
  } else if (report.rounds > 0) {
    std::vector<float> centre(model.size());
    state.get("centre", centre);
    ASSERT_TRUE(same_everywhere(communicator, centre));
  }
}

std::unique_ptr<ModelMethod> make(const Case& the_case, Communicator& communicator, Place& place) {
  auto method = make_model_method(the_case.row->name, the_case.options, the_case.optimizer, communicator, place);
  method->register_tensors(small_model());
  method->set_scoring([](View<const float> point, View<float> gradient) {
    const auto made = pull_gradient({point.begin(), point.end()}, 1000, 0);
    std::memcpy(gradient.data(), made.data(), made.size() * sizeof(float));
  });
  return method;
}

StepReport step(ModelMethod& method, Communicator& communicator, std::vector<float>& model, std::uint32_t number) {
  auto gradient = pull_gradient(model, communicator.rank(), number);
  return method.step({{42, number, static_cast<std::uint32_t>(communicator.rank())}, 0.05F, 0.0F}, model, gradient);
}

/// The first of all threads is the one that comes or goes, so the others' ranks are numbered anew.
void check_resize(const Case& the_case, int before, int after) {
  const int most = std::max(before, after);
  const auto old_group = thread_communicators(before);
  const auto next_group = thread_communicators(after);
  run_ranks(most, [&](Communicator& everyone) {
    const int in_old = everyone.rank() - (most - before);
    const int in_next = everyone.rank() - (most - after);
    const bool newcomer = in_old < 0;
    const auto alone = thread_communicators(1);
    Communicator& first = newcomer ? *alone[0] : *old_group[static_cast<std::size_t>(in_old)];
    Place place({.threads = 1});
    const auto method = make(the_case, first, place);
    std::vector<float> model(size_of(small_model()), 0.5F);
    if (!newcomer) {
      method->start(model);
      for (std::uint32_t number = 0; number < 5; ++number) step(*method, first, model, number);
    }
    auto told = model;
    everyone.broadcast(as_writable_bytes(View<float>(told)), most - 1).wait();
    if (newcomer) model = told;
    if (in_next < 0) return method->resize(nullptr);
    Communicator& next = *next_group[static_cast<std::size_t>(in_next)];
    method->resize(&next);
    method->start(model);
    const bool lifted = the_case.row->face == Face::gradient;
    ASSERT_TRUE(same_everywhere(next, counts_of(*method, lifted)));
    std::uint32_t rounds = 0;
    for (std::uint32_t number = 5; number < 8; ++number) {
      SCOPED_TRACE(number);
      const StepReport report = step(*method, next, model, number);
      rounds += report.rounds;
      check_shared(next, the_case, *method, model, report);
      ASSERT_TRUE(same_everywhere(next, counts_of(*method, lifted)));
    }
    // A period of 4: the last of the three is a round.
    if (method->save().size("centre") > 0) {
      EXPECT_EQ(rounds, 1U);
    }
  });
}

TEST_P(EveryResize, SharesTheSameBitsWithANewcomer) { check_resize(GetParam(), 2, 3); }
TEST_P(EveryResize, SharesTheSameBitsWhenOneLeaves) { check_resize(GetParam(), 3, 2); }

}  // namespace
}  // namespace laconic::test
