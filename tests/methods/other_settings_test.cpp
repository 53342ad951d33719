// A state is loaded with the settings that it was saved with: each parameter of each row, and each of the optimizer's.

#include <gtest/gtest.h>

#include <cmath>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/support.h"

namespace laconic::test {
namespace {

/// Two settings of a row that differ in a parameter.
struct Pair {
  MethodOptions saved;
  MethodOptions mine;
};

MethodOptions convex_rule() {
  return {.rule = "convex", .kappa = 100.0, .smoothness = 2.0, .convexity = 0.5, .step_size = 0.1, .total_steps = 50.0};
}

/// Options under which the parameter counts.
MethodOptions counting(const MethodRow& row, const std::string& parameter) {
  MethodOptions options = small_options(row);
  if (parameter == "return" && row.find_parameter("return")->choices.back() == "requantized") options.route = "scatter";
  if (parameter == "chunk") options.scope = "chunk";
  const bool of_lists = parameter == "scope" || parameter == "chunk" || parameter == "route" || parameter == "return";
  if (sends_all(row) && of_lists) options.keep = 0.5;
  if (parameter == "rounding") options.memory = "error";
  if (parameter == "memory") options.rounding = "stochastic";
  if (parameter == "route" && row.has_parameter("memory")) options.return_ = "full";
  if (parameter == "pace") options.total_steps = 100;
  if (row.name != std::string("dqsgd")) return options;
  if (parameter == "kappa" || parameter == "convexity") return convex_rule();
  if (parameter == "smoothness" || parameter == "step_size" || parameter == "error_budget") {
    return {.error_budget = 1.0, .smoothness = 2.0, .step_size = 0.1};
  }
  if (parameter == "total_steps" || parameter == "bit_budget") return {.bit_budget = 4.0, .total_steps = 50.0};
  return options;
}

Pair differing_in(const MethodRow& row, const Parameter& parameter) {
  const std::string name = parameter.name;
  Pair pair{counting(row, name), counting(row, name)};
  if (parameter.word != nullptr) {
    const bool first = parameter.fallback == parameter.choices.front();
    pair.saved.*parameter.word = parameter.fallback;
    pair.mine.*parameter.word = parameter.choices[first ? 1 : 0];
    if (name == "rule") pair.mine = convex_rule();
    return pair;
  }
  auto& saved = pair.saved.*parameter.number;
  if (!saved) saved = parameter.fallback.empty() ? 0.5 : std::stod(parameter.fallback);
  double other = parameter.whole ? *saved + 1.0 : *saved * 0.75;
  if (*saved == 0.0) other = parameter.whole ? 5.0 : 0.25;
  if (name == "chunk") other = *saved * 2.0;  // a power of two
  pair.mine.*parameter.number = other;
  return pair;
}

std::string text_in(const MethodOptions& options, const Parameter& parameter) {
  return parameter.word != nullptr ? (options.*parameter.word).value() : text_of((options.*parameter.number).value());
}

/// What loading into the second what the first has saved is refused with; "" where it is not. A round is over.
std::string refusal(const MethodRow& row, const Pair& pair, const OptimizerOptions& saved_optimizer = {},
                    const OptimizerOptions& my_optimizer = {}) {
  std::string text;
  run_ranks(1, [&](Communicator& communicator) {
    Worker saved(row, pair.saved, communicator, saved_optimizer);
    for (std::uint32_t step = 0; step < 4; ++step) saved.step(step);
    Worker mine(row, pair.mine, communicator, my_optimizer);
    const auto before = mine.method->save().to_bytes();
    text = message_of<InvalidConfig>([&] { mine.method->load(saved.method->save()); });
    if (text == "(no error)") {
      text.clear();
    } else {
      EXPECT_EQ(mine.method->save().to_bytes(), before) << row.name << ": " << text;
    }
  });
  return text;
}

TEST(OtherSettings, AreRefusedByNameWithBothValues) {
  for (const MethodRow& row : method_table()) {
    for (const Parameter& parameter : row.parameters) {
      const Pair pair = differing_in(row, parameter);
      const std::string text = refusal(row, pair);
      if (parameter.may_change) {
        EXPECT_EQ(text, "") << row.name << " " << parameter.name;
        continue;
      }
      const std::string is = parameter.name + std::string(" = ");
      EXPECT_TRUE(contains(text, "was saved with " + is + text_in(pair.saved, parameter) + ", this " + row.name +
                                     " has " + is + text_in(pair.mine, parameter) + ":"))
          << row.name << " " << parameter.name << ": " << text;
    }
  }
}

// Which these are is said in include/laconic/method.h.
TEST(OtherSettings, MayBeOthersInWhatLeavesTheMemoryAsItIs) {
  for (const MethodRow& row : method_table()) {
    for (const Parameter& parameter : row.parameters) {
      const std::string name = parameter.name;
      const bool rounds = row.face == Face::model && name == "total_steps";
      EXPECT_EQ(parameter.may_change,
                rounds || name == "route" || name == "order" || name == "diagnose" || name == "read" || name == "pace")
          << row.name << " " << name;
    }
  }
}

// A parameter without a default may be given in one run and not in the other.
TEST(OtherSettings, AreRefusedWhereOneIsNotGiven) {
  const MethodRow& row = method_row("dqsgd");
  const MethodOptions none;
  const MethodOptions given{.tau = 3.0};
  const std::string more = refusal(row, {none, given});
  const std::string less = refusal(row, {given, none});
  EXPECT_TRUE(contains(more, "was saved with no tau, this dqsgd has tau = 3:")) << more;
  EXPECT_TRUE(contains(less, "was saved with tau = 3, this dqsgd has no tau:")) << less;
  EXPECT_EQ(refusal(row, {given, given}), "");
}

TEST(OtherSettings, OfAFractionAreComparedExactly) {
  const MethodOptions third{.mu = 1.0 / 3.0};
  const MethodOptions next{.mu = std::nextafter(1.0 / 3.0, 1.0)};
  EXPECT_EQ(refusal(method_row("regtopk"), {third, third}), "");
  EXPECT_TRUE(contains(refusal(method_row("regtopk"), {third, next}), "mu = 0.3333333333333333, "));
}

TEST(OtherSettings, OfTheOptimizerAreRefused) {
  const OptimizerOptions sgd{.momentum = 0.9};
  const OptimizerOptions adam{.name = "adam"};
  const auto changed = [](OptimizerOptions options, auto&& change) {
    change(options);
    return options;
  };
  for (const MethodRow& row : method_table()) {
    const Pair same{small_options(row), small_options(row)};
    const auto refused = [&](const OptimizerOptions& saved, const OptimizerOptions& mine, const std::string& setting) {
      const std::string text = refusal(row, same, saved, mine);
      EXPECT_TRUE(contains(text, "was saved with " + setting)) << row.name << ": " << text;
    };
    if (row.name != std::string("adam")) {
      EXPECT_EQ(refusal(row, same, sgd, sgd), "") << row.name;
      refused(sgd, changed(sgd, [](auto& options) { options.momentum = 0.8; }), "optimizer's momentum = 0.9");
      refused(sgd, changed(sgd, [](auto& options) { options.nesterov = true; }), "optimizer's nesterov = false");
      refused(sgd, changed(sgd, [](auto& options) { options.weight_decay = 0.01; }), "optimizer's weight_decay = 0");
      // What SGD does not use is nobody's business.
      EXPECT_EQ(refusal(row, same, sgd, changed(sgd, [](auto& options) { options.beta1 = 0.8; })), "") << row.name;
    }
    EXPECT_EQ(refusal(row, same, adam, adam), "") << row.name;
    refused(adam, changed(adam, [](auto& options) { options.beta1 = 0.8; }), "optimizer's beta1 = 0.9");
    refused(adam, changed(adam, [](auto& options) { options.beta2 = 0.99; }), "optimizer's beta2 = 0.999");
    refused(adam, changed(adam, [](auto& options) { options.epsilon = 1e-6; }), "optimizer's epsilon = 1e-08");
    refused(adam, changed(adam, [](auto& options) { options.weight_decay = 0.01; }), "optimizer's weight_decay = 0");
    if (row.name == std::string("adam")) continue;
    refused(adam, sgd, "optimizer = adam");
    refused(sgd, adam, "optimizer = sgd");
  }
}

// The method's own momentum and weight decay stand in for the optimizer's.
TEST(OtherSettings, OfTheOptimizerCountOnlyWhereTheMethodHasNone) {
  const MethodRow& row = method_row("def");
  const MethodOptions own{.momentum = 0.9, .weight_decay = 0.0};
  EXPECT_EQ(refusal(row, {own, own}, {.momentum = 0.5}, {.momentum = 0.7, .weight_decay = 0.01}), "");
}

TEST(OtherSettings, OfAnotherMethodAreRefusedWithItsName) {
  run_ranks(1, [](Communicator& communicator) {
    Worker topk(method_row("topk"), {.keep = 0.1}, communicator);
    Worker regtopk(method_row("regtopk"), {.keep = 0.1}, communicator);
    const auto text = message_of<InvalidConfig>([&] { regtopk.method->load(topk.method->save()); });
    EXPECT_TRUE(contains(text, "is of another method than regtopk, of topk: load it into")) << text;
  });
}

}  // namespace
}  // namespace laconic::test
