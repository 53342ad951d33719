// The claims: those that are cheap run with one seed, and so do the tools that all of them stand on.

#include "claims/claims.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "claims/tools.h"
#include "laconic/error.h"
#include "support/support.h"
#ifdef LACONIC_PROGRAM
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/shell.h"
#include "support/temporary_folder.h"
#endif

namespace laconic {
namespace {

using test::contains;
using test::message_of;

RunConfig small_run(const char* method, int workers) {
  RunConfig config = default_config("logistic-regression");
  config.problem_settings = {{"dimension", 40}, {"points", 30}, {"tensors", 2}, {"batch", 10}};
  config.method = method;
  config.workers = workers;
  config.steps = 25;
  config.seed = 5;
  return config;
}

TEST(Turns, GiveTheBitsOfThreads) {
  for (const char* method : {"sgd", "topk", "signsgd", "qsgd", "def", "mgrawa"}) {
    for (const int workers : {1, 2, 7}) {
      const RunConfig config = small_run(method, workers);
      const auto problem = make_problem(config.problem, config.problem_settings, workers, config.seed);
      const auto threads = run_threads(config, *problem);
      const auto turns = claims::run_in_turn(config, *problem);
      ASSERT_EQ(turns.size(), threads.size());
      for (std::size_t rank = 0; rank < turns.size(); ++rank) {
        EXPECT_EQ(turns[rank].model, threads[rank].model) << method << ", " << workers << " workers, rank " << rank;
        EXPECT_EQ(turns[rank].worker_model, threads[rank].worker_model) << method << ", rank " << rank;
        EXPECT_EQ(turns[rank].sent_by_rank, threads[rank].sent_by_rank) << method;
      }
    }
  }
}

TEST(Turns, ASmallRunIsTheLoopsRun) {
  for (const char* method : {"sgd", "topk", "regtopk", "qsgd", "def"}) {
    RunConfig config = small_run(method, 3);
    config.adversaries = 1;
    config.schedule = {{10, 0.5}};
    const auto problem = make_problem(config.problem, config.problem_settings, config.workers, config.seed);
    std::vector<float> end;
    std::vector<std::uint32_t> looks;
    claims::run_small(config, *problem, {5, [&](std::uint32_t steps, View<const float> point) {
                                           looks.push_back(steps);
                                           end.assign(point.begin(), point.end());
                                         }});
    EXPECT_EQ(looks, (std::vector<std::uint32_t>{5, 10, 15, 20, 25})) << method;
    EXPECT_EQ(end, run_threads(config, *problem).front().model) << method;
  }
}

TEST(ClaimTools, JobsAllRunAndErrorsComeBack) {
  std::vector<int> done(100, 0);
  double share = 0.0;
  claims::side_by_side(done.size(), {.progress = [&](double now) { share = now; }}, [&](std::size_t i) { ++done[i]; });
  EXPECT_EQ(done, std::vector<int>(100, 1));
  EXPECT_EQ(share, 1.0);
  EXPECT_THROW(claims::side_by_side(9, {},
                                    [](std::size_t i) {
                                      if (i == 4) throw InvalidConfig("four");
                                    }),
               InvalidConfig);
}

TEST(ClaimTools, MediansAndSlopes) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(claims::median({3, 1, 2}), 2.0);
  EXPECT_EQ(claims::median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(claims::median({kNone, 1, 2}), 2.0);
  EXPECT_TRUE(std::isnan(claims::median({kNone, kNone, 2})));
  EXPECT_DOUBLE_EQ(claims::slope({0, 1, 2}, {1, -1, -3}), -2.0);
}

TEST(Claims, SayWhatTheyNeed) {
  std::set<std::string> names;
  for (const Claim& claim : claims_on(Subject::problems)) {
    EXPECT_TRUE(names.insert(claim.name).second) << claim.name;
    for (const char* text : {claim.paper, claim.statement, claim.published, claim.rule}) {
      EXPECT_GT(std::string(text).size(), 10U) << claim.name;
    }
    EXPECT_GE(std::get<ProblemCheck>(claim.check).seeds, 1) << claim.name;
  }
  EXPECT_EQ(names.size(), 15U);
  EXPECT_GE(std::get<ProblemCheck>(claim_named("regtopk-regression", Subject::problems).check).seeds, 7);
}

TEST(Claims, SuggestTheNearestName) {
  const std::string message = message_of<InvalidConfig>([] { claim_named("regtopk-toi", Subject::problems); });
  EXPECT_TRUE(contains(message, "did you mean regtopk-toy?")) << message;
  EXPECT_THROW(check_claim(claim_named("regtopk-toy", Subject::problems), {.seeds = -1}), InvalidConfig);
}

TEST(Claims, AreOneTableOfTwoSubjects) {
  std::set<std::string> names;
  for (const Claim& claim : claim_table()) EXPECT_TRUE(names.insert(claim.name).second) << claim.name;
  const auto networks = claims_on(Subject::networks);
  EXPECT_EQ(claims_on(Subject::problems).size() + networks.size(), claim_table().size());
  EXPECT_EQ(networks.front().name, std::string("def-divergence"));
  const auto misplaced = [](const char* name, Subject subject) {
    return message_of<InvalidConfig>([&] { claim_named(name, subject); });
  };
  EXPECT_EQ(misplaced("def-divergence", Subject::problems), "def-divergence is a claim about networks: add --deep");
  EXPECT_EQ(misplaced("sign-ties", Subject::networks), "sign-ties is a claim about a problem: leave --deep out");
}

class CheapClaim : public testing::TestWithParam<const char*> {};

TEST_P(CheapClaim, HoldsWithOneSeed) {
  const ClaimOutcome outcome = check_claim(claim_named(GetParam(), Subject::problems), {.seeds = 1}).outcome.value();
  EXPECT_TRUE(outcome.holds) << outcome.measured;
  EXPECT_FALSE(outcome.measured.empty());
  EXPECT_FALSE(outcome.rows.empty());
  for (const auto& row : outcome.rows) EXPECT_EQ(row.size(), outcome.columns.size());
}

INSTANTIATE_TEST_SUITE_P(All, CheapClaim,
                         testing::Values("regtopk-toy", "sign-noisy-quadratic", "sign-geometry", "sign-ties",
                                         "def-virtual-iterate", "def-sgd-ia", "def-vs-ef", "grawa-convex",
                                         "grawa-vincent"),
                         [](const auto& claim) {
                           std::string name = claim.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

/// One cell of the regression's table.
double regression_end(const char* method, const char* denominator) {
  RunConfig config = default_config("linear-regression");
  config.method = method;
  config.options.keep = 0.6;
  if (denominator != nullptr) config.options.denominator = denominator;
  const auto problem = make_problem(config.problem, {}, config.workers, config.seed);
  double end = 0.0;
  claims::run_small(config, *problem, {config.steps, [&](std::uint32_t, View<const float> point) {
                                         end = 2.0 * std::log10(problem->distance(point).value());
                                       }});
  return end;
}

TEST(Claims, RegressionOfOneSeed) {
  EXPECT_GT(regression_end("topk", nullptr), -4.6);
  EXPECT_LT(regression_end("regtopk", "previous"), -6.0);
}

#ifdef LACONIC_PROGRAM

using test::Outcome;

Outcome reproduce(const std::string& arguments) {
  return test::shell(std::string(LACONIC_PROGRAM) + " reproduce " + arguments);
}

TEST(Reproduce, PrintsJson) {
  const Outcome answer = reproduce("regtopk-toy def-sgd-ia --json --seeds 1");
  ASSERT_EQ(answer.code, 0) << answer.text;
  const auto json = nlohmann::json::parse(answer.text);
  ASSERT_EQ(json.size(), 2U);
  for (const auto& each : json) {
    for (const char* key : {"claim", "paper", "published", "measured", "rule"}) {
      EXPECT_TRUE(each.at(key).is_string()) << key;
    }
    EXPECT_TRUE(each.at("holds").get<bool>());
    EXPECT_EQ(each.at("table").at("rows").at(0).size(), each.at("table").at("columns").size());
  }
  EXPECT_EQ(json[1].at("claim"), "def-sgd-ia");
}

TEST(Reproduce, ListsAndRefuses) {
  const Outcome list = reproduce("--list --json");
  ASSERT_EQ(list.code, 0) << list.text;
  EXPECT_EQ(nlohmann::json::parse(list.text).size(), claims_on(Subject::problems).size());
  const Outcome wrong = reproduce("sign-tie");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(contains(wrong.text, "did you mean sign-ties?")) << wrong.text;
  EXPECT_EQ(reproduce("--seeds many").code, 2);
}

// Neither needs PyTorch.
TEST(Reproduce, ListsClaimsAboutNetworksAndJudgesAFile) {
  const Outcome list = reproduce("--deep --list --json");
  ASSERT_EQ(list.code, 0) << list.text;
  const auto claims = nlohmann::json::parse(list.text);
  ASSERT_EQ(claims.size(), claims_on(Subject::networks).size());
  EXPECT_EQ(claims[0].at("runs").size(), std::get<NetworkCheck>(claims_on(Subject::networks)[0].check).runs.size());
  EXPECT_TRUE(claims[0].at("independent").is_string());
  const test::TemporaryFolder folder;
  const std::string results = folder.path() + "/results.json";
  std::ofstream(results) << "[]\n";
  const Outcome none = reproduce("--deep signum-adam --json --results '" + results + "'");
  EXPECT_EQ(none.code, 1) << none.text;
  EXPECT_TRUE(contains(none.text, "\"measured\": \"missing: signum-7 signum-8 adam sgd\"")) << none.text;
  EXPECT_TRUE(contains(none.text, "\"holds\": null")) << none.text;
  EXPECT_TRUE(contains(none.text, "0 of 1 claims do not hold, 1 are not decided")) << none.text;
}

#endif

}  // namespace
}  // namespace laconic
