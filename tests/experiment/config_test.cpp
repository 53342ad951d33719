// A configuration as text: round trips, precedence, and refusals that help.

#include <gtest/gtest.h>

#include "experiment/config_text.h"
#include "laconic/error.h"
#include "methods/table.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::contains;
using test::message_of;

std::string refusal(std::vector<ConfigEntry> entries) {
  return message_of<InvalidConfig>([&] { config_from(entries); });
}

bool same(const std::vector<ConfigEntry>& a, const std::vector<ConfigEntry>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].section != b[i].section || a[i].key != b[i].key || a[i].value != b[i].value) return false;
  }
  return true;
}

TEST(Config, OfEveryMethodAndProblemSurvivesAsText) {
  for (const ProblemRow& problem : problem_table()) {
    for (const MethodRow& method : method_table()) {
      const auto told = entries_of(
          config_from(std::vector<ConfigEntry>{{"problem", "name", problem.name}, {"method", "name", method.name}}));
      EXPECT_TRUE(same(entries_of(config_from(told)), told)) << problem.name << ' ' << method.name;
    }
  }
}

TEST(Config, KeepsWhatWasGiven) {
  const std::vector<ConfigEntry> entries{{"method", "name", "topk"},
                                         {"method", "keep", "0.3"},
                                         {"problem", "name", "noisy-quadratic"},
                                         {"problem", "noise", "0.25"},
                                         {"run", "schedule", "10:0.5,20:0.1"},
                                         {"run", "slowdown", "1,2,4"},
                                         {"run", "compute_seconds", "0.001"},
                                         {"run", "workers", "3"},
                                         {"run", "nonfinite", "skip"},
                                         {"optimizer", "momentum", "0.9"},
                                         {"optimizer", "nesterov", "true"},
                                         {"problem", "noise", "0.5"}};
  const RunConfig config = config_from(entries);
  EXPECT_EQ(config.method, "topk");
  EXPECT_EQ(config.options.keep, 0.3);
  EXPECT_EQ(config.problem_settings, (ProblemNumbers{{"noise", 0.5}}));  // the later one
  ASSERT_EQ(config.schedule.size(), 2U);
  EXPECT_EQ(config.schedule[1].step, 20U);
  EXPECT_EQ(config.schedule[1].factor, 0.1);
  EXPECT_EQ(config.slowdown, (std::vector<double>{1, 2, 4}));
  EXPECT_EQ(config.nonfinite, NonfinitePolicy::skip);
  EXPECT_EQ(config.optimizer.momentum, 0.9);
  EXPECT_TRUE(config.optimizer.nesterov);
  EXPECT_EQ(config.steps, problem_row("noisy-quadratic").steps);  // the problem's own
  EXPECT_TRUE(same(entries_of(config_from(entries_of(config))), entries_of(config)));
}

TEST(Config, SuggestsTheNearestKey) {
  EXPECT_TRUE(contains(refusal({{"run", "stepps", "3"}}), "did you mean steps?"));
  EXPECT_TRUE(contains(refusal({{"optimizer", "momentun", "3"}}), "did you mean momentum?"));
  EXPECT_TRUE(contains(refusal({{"problem", "point", "3"}}), "did you mean points?"));
  EXPECT_TRUE(contains(refusal({{"method", "name", "topk"}, {"method", "kep", "3"}}), "did you mean keep?"));
  EXPECT_TRUE(contains(refusal({{"method", "name", "regtop"}}), "did you mean regtopk?"));
  EXPECT_TRUE(contains(refusal({{"problem", "name", "vinzent"}}), "did you mean vincent?"));
  EXPECT_TRUE(contains(refusal({{"wires", "x", "1"}}), "section wires"));
}

TEST(Config, RefusesWhatIsNoNumber) {
  EXPECT_TRUE(contains(refusal({{"run", "steps", "many"}}), "steps must be a whole number"));
  EXPECT_TRUE(contains(refusal({{"run", "steps", "-1"}}), "-1"));
  EXPECT_TRUE(contains(refusal({{"run", "learning_rate", "0.1x"}}), "0.1x"));
  EXPECT_TRUE(contains(refusal({{"run", "schedule", "10"}}), "STEP:FACTOR"));
  EXPECT_TRUE(contains(refusal({{"run", "nonfinite", "ignore"}}), "error or skip"));
  EXPECT_TRUE(contains(refusal({{"problem", "points", "lots"}}), "points"));
  EXPECT_TRUE(contains(refusal({{"optimizer", "nesterov", "maybe"}}), "true or false"));
}

TEST(Assignments, FindTheirSection) {
  const auto section = [](std::string_view text) { return entry_from(text, "vincent", "topk").section; };
  EXPECT_EQ(section("noise=1"), "problem");
  EXPECT_EQ(section("keep=0.1"), "method");
  EXPECT_EQ(section("momentum=0.1"), "optimizer");
  EXPECT_EQ(section("seed=4"), "run");
  EXPECT_EQ(section("run.seed=4"), "run");
  EXPECT_EQ(entry_from("noise=1", "vincent", "topk").value, "1");
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { section("kep=1"); }), "did you mean keep?"));
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { section("keep"); }), "name=value"));
}

TEST(Config, OfATaskHasWhatSuitsTheMethod) {
  const auto of = [](const std::string& method, std::vector<ConfigEntry> more = {}) {
    std::vector<ConfigEntry> entries{{"task", "name", "digits"}, {"method", "name", method}, {"run", "steps", "3000"}};
    entries.insert(entries.end(), more.begin(), more.end());
    return config_from(entries);
  };
  EXPECT_EQ(of("topk").learning_rate, 0.05);
  EXPECT_EQ(of("topk").optimizer.momentum, 0.9);
  EXPECT_FALSE(of("def").optimizer.nesterov);
  EXPECT_TRUE(of("mgrawa").optimizer.nesterov);
  EXPECT_EQ(of("signum").learning_rate, 5e-4);
  EXPECT_EQ(of("signum").optimizer.momentum, 0.0);
  EXPECT_EQ(of("adam").learning_rate, 1e-3);
  const RunConfig config = of("sgd", {{"task", "batch", "32"}, {"task", "model", "mlp"}});
  ASSERT_EQ(config.schedule.size(), 2U);
  EXPECT_EQ(config.schedule[0].step, 1500U);
  EXPECT_EQ(config.schedule[1].step, 2250U);
  EXPECT_EQ(config.task.batch, 32U);
  EXPECT_TRUE(of("sgd", {{"run", "schedule", ""}}).schedule.empty());
  // Told and read again it is the same run.
  const auto entries = entries_of(config);
  const auto again = entries_of(config_from(entries));
  ASSERT_EQ(again.size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) EXPECT_EQ(again[i].value, entries[i].value) << entries[i].key;
}

// The learning rate follows the optimizer that is chosen, unless one is given, before or after it.
TEST(Config, OfATaskHasTheLearningRateOfItsOptimizer) {
  const auto rate = [](const char* task, const char* method, const char* optimizer, std::vector<ConfigEntry> more = {}) {
    more.insert(more.begin(), {"task", "name", task});
    more.push_back({"method", "name", method});
    more.push_back({"optimizer", "name", optimizer});
    return config_from(more).learning_rate;
  };
  for (const char* method : {"sgd", "topk", "def-topk", "mgrawa", "block-quant"}) {
    for (const char* task : {"digits", "text"}) {
      EXPECT_EQ(rate(task, method, "adamw"), 1e-3) << method << " on " << task;
      EXPECT_EQ(rate(task, method, "adam"), 1e-3) << method << " on " << task;
      EXPECT_EQ(rate(task, method, "sgd"), 0.05) << method << " on " << task;
    }
  }
  EXPECT_EQ(rate("digits", "signum", "sgd"), 5e-4) << "a vote keeps its own";
  EXPECT_EQ(rate("digits", "adam", "adam"), 1e-3);
  const ConfigEntry given{"run", "learning_rate", "0.05"};
  EXPECT_EQ(rate("digits", "sgd", "adamw", {given}), 0.05);
  EXPECT_EQ(config_from(std::vector<ConfigEntry>{{"task", "name", "digits"}, {"optimizer", "name", "adamw"}, given})
                .learning_rate,
            0.05);
  // A problem has one learning rate for all optimizers.
  const ConfigEntry problem{"problem", "name", "linear-regression"};
  EXPECT_EQ(config_from(std::vector<ConfigEntry>{problem, {"optimizer", "name", "adamw"}}).learning_rate,
            default_config("linear-regression").learning_rate);
}

TEST(Config, OfATextTrainsATransformer) {
  const auto of = [](const std::string& method, std::vector<ConfigEntry> more = {}) {
    std::vector<ConfigEntry> entries{{"task", "name", "text"}, {"method", "name", method}, {"run", "steps", "1000"}};
    entries.insert(entries.end(), more.begin(), more.end());
    return config_from(entries);
  };
  const RunConfig topk = of("topk");
  EXPECT_EQ(topk.optimizer.name, "adam");
  EXPECT_EQ(topk.optimizer.momentum, 0.0);
  EXPECT_EQ(topk.learning_rate, 1e-3);
  EXPECT_EQ(topk.clip, 1.0);
  EXPECT_TRUE(topk.cosine);
  EXPECT_TRUE(topk.schedule.empty());
  EXPECT_EQ(topk.warmup, 100U);
  for (const char* method : {"mgrawa", "def", "def-topk", "diloco", "block-quant"}) {
    EXPECT_EQ(of(method).optimizer.name, "adam") << method;
    EXPECT_EQ(of(method).learning_rate, 1e-3) << method;
  }
  // Those with an optimizer of their own keep it.
  EXPECT_EQ(of("sgd").optimizer.name, "sgd");
  EXPECT_EQ(of("sgd").learning_rate, 0.05);
  EXPECT_EQ(of("signum").optimizer.name, "sgd");
  EXPECT_EQ(of("signum").learning_rate, 5e-4);
  EXPECT_EQ(of("adam").learning_rate, 1e-3);
  EXPECT_EQ(of("topk", {{"optimizer", "name", "sgd"}}).optimizer.momentum, 0.9);
  // What is given stays; a warm-up of one's own leaves the cosine.
  EXPECT_EQ(of("topk", {{"run", "warmup", "7"}}).warmup, 7U);
  EXPECT_TRUE(of("topk", {{"run", "warmup", "7"}}).cosine);
  EXPECT_FALSE(of("topk", {{"run", "schedule", "none"}}).cosine);
  EXPECT_EQ(of("topk", {{"run", "schedule", "none"}}).warmup, 0U);
  EXPECT_EQ(of("topk", {{"run", "schedule", "cosine"}}).warmup, 100U);
  EXPECT_EQ(of("topk", {{"run", "clip", "0"}}).clip, 0.0);
  for (const RunConfig& config : {topk, of("sgd"), of("signum", {{"run", "schedule", "10:0.5"}})}) {
    EXPECT_TRUE(same(entries_of(config_from(entries_of(config))), entries_of(config)));
  }
}

TEST(LearningRate, RisesAndFallsAlongACosine) {
  RunConfig config;
  config.learning_rate = 2.0;
  config.steps = 110;
  config.warmup = 10;
  config.cosine = true;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 0), 2.0 / 11.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 9), 20.0 / 11.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 10), 2.0);
  EXPECT_NEAR(learning_rate_at(config, 60), 2.0 * 0.55, 1e-12) << "half of the way between 1 and a tenth";
  EXPECT_NEAR(learning_rate_at(config, 110), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate_at(config, 500), 0.2, 1e-12) << "a worker ahead of the others";
  config.cosine = false;
  config.schedule = {{50, 0.5}};
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 4), 10.0 / 11.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 49), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 50), 1.0);
  config = {};
  config.warmup = 200;  // longer than the run
  config.cosine = true;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 99), config.learning_rate * 100.0 / 201.0);
}

TEST(Config, OfAProblemHasALearningRateThatSuitsTheMethod) {
  const auto of = [](const std::string& method, std::vector<ConfigEntry> more = {}) {
    std::vector<ConfigEntry> entries{{"problem", "name", "logistic-regression"}, {"method", "name", method}};
    entries.insert(entries.end(), more.begin(), more.end());
    return config_from(entries).learning_rate;
  };
  const double usual = problem_row("logistic-regression").learning_rate;
  for (const char* method : {"sgd", "topk", "adam", "mgrawa"}) EXPECT_EQ(of(method), usual) << method;
  for (const char* method : {"signsgd", "signum"}) {
    EXPECT_EQ(of(method), 0.01) << "a vote moves every entry by the whole learning rate";
    EXPECT_EQ(of(method, {{"run", "learning_rate", "0.3"}}), 0.3);
  }
}

TEST(Config, AMethodsSettingsComeInAnyOrder) {
  const ConfigEntry dqsgd{"method", "name", "dqsgd"};
  const ConfigEntry end{"method", "total_steps", "20", "run.toml:4"};
  const RunConfig config = config_from(std::vector<ConfigEntry>{dqsgd, end, {"method", "bit_budget", "4"}});
  EXPECT_EQ(config.options.total_steps, 20.0);
  const std::string text = refusal({dqsgd, end});
  EXPECT_TRUE(contains(text, "run.toml:4: dqsgd: total_steps counts only with")) << text;
}

TEST(Config, AdamHasNoMomentumAndIsToldAsAdam) {
  const auto name_of = [](const RunConfig& config) { return last_value(entries_of(config), "optimizer", "name"); };
  const auto refusal = [](std::vector<ConfigEntry> entries) {
    return message_of<InvalidConfig>([&] { config_from(entries); });
  };
  const ConfigEntry adam{"method", "name", "adam"};
  const ConfigEntry digits{"task", "name", "digits"};
  const ConfigEntry lifted{"optimizer", "name", "adam"};
  for (const std::vector<ConfigEntry>& entries :
       {std::vector<ConfigEntry>{adam}, {adam, digits}, {adam, lifted}, {digits, lifted}}) {
    const RunConfig config = config_from(entries);
    EXPECT_EQ(name_of(config), "adam");
    EXPECT_EQ(config.optimizer.momentum, 0.0);
    EXPECT_EQ(name_of(config_from(entries_of(config))), "adam") << "told and read again";
  }
  RunConfig config = default_config("linear-regression");
  config.method = "adam";
  EXPECT_EQ(name_of(config), "adam");
  EXPECT_TRUE(contains(refusal({adam, {"optimizer", "momentum", "0.5"}}), "adam takes no momentum"));
  EXPECT_TRUE(contains(refusal({adam, {"optimizer", "nesterov", "true"}}), "adam takes no nesterov"));
  EXPECT_TRUE(contains(refusal({lifted, {"optimizer", "momentum", "0.5"}}), "adam takes no momentum"));
  EXPECT_TRUE(contains(refusal({adam, {"optimizer", "name", "sgd"}}), "leave the optimizer out"));
}

// By the trait: every vote of the table, and nothing else.
TEST(Config, RefusesAVoteBeforeAnAdamLikeOptimizer) {
  const auto entries_of_vote = [](const char* method, const char* optimizer) {
    return std::vector<ConfigEntry>{{"task", "name", "digits"},
                                    {"method", "name", method},
                                    {"optimizer", "name", optimizer, "run.toml:7"}};
  };
  int votes = 0;
  for (const MethodRow& row : method_table()) {
    if (row.fixes_optimizer()) continue;
    const bool is_vote = row.traits.suits == Suits::vote;
    votes += is_vote ? 1 : 0;
    for (const char* optimizer : {"sgd", "adam", "adamw"}) {
      const auto entries = entries_of_vote(row.name, optimizer);
      if (!is_vote || std::string_view(optimizer) == "sgd") {
        EXPECT_NO_THROW(config_from(entries)) << row.name << " with " << optimizer;
        continue;
      }
      const std::string text = message_of<InvalidConfig>([&] { config_from(entries); });
      const std::string rule = "the optimizer of " + std::string(row.name) + ", a vote, must be sgd, got ";
      EXPECT_TRUE(text.starts_with("run.toml:7: " + rule + optimizer + ": ")) << text;
      EXPECT_TRUE(contains(text, "leave the optimizer out, or use a method that suits any optimizer")) << text;
    }
  }
  EXPECT_GE(votes, 2);
  RunConfig made = default_config("linear-regression", "signum");
  made.optimizer = {.name = "adamw"};
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { require_valid(made); }), "must be sgd, got adamw"));
}

TEST(Config, OfATaskRefusesWhatCannotBe) {
  const auto error = [](const std::string& key, const std::string& value) {
    const std::vector<ConfigEntry> entries{{"task", "name", "digits"}, {"task", key, value}};
    return message_of<InvalidConfig>([&] { config_from(entries); });
  };
  EXPECT_TRUE(contains(error("batch", "0"), "1..65536")) << error("batch", "0");
  EXPECT_TRUE(contains(error("skew", "2"), "[0, 1]"));
  EXPECT_TRUE(contains(error("sampling", "often"), "epochs or replacement"));
  EXPECT_TRUE(contains(error("device", "abacus"), "must be cpu or cuda, got \"abacus\""));
  EXPECT_TRUE(contains(error("bach", "1"), "did you mean batch?")) << error("bach", "1");
  const std::vector<ConfigEntry> both{{"task", "name", "digits"}, {"problem", "name", "vincent"}};
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { config_from(both); }), "name one of them"));
}

}  // namespace
}  // namespace laconic
