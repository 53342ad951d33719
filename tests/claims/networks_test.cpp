// Named runs, their records and the claims that they decide.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "claims/networks/flatness.h"
#include "claims/networks/judge.h"
#include "claims/networks/markdown.h"
#include "claims/networks/record_files.h"
#include "claims/networks/results_file.h"
#include "laconic/error.h"
#include "support/temporary_folder.h"

namespace laconic::claims {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

/// Every run with its independent figures, where it has them; `other` else.
std::vector<NetworkResult> independent_results(double other) {
  std::vector<NetworkResult> results;
  for (const NetworkRun& run : run_table()) {
    const auto or_other = [&](double value) { return std::isnan(value) ? other : value; };
    const Independent& figures = run.independent;
    NetworkResult result{.run = run.name, .seed = 1, .steps = 3000};
    result.accuracies = {{500, or_other(figures.first_sixth)},
                         {1000, or_other(figures.first_third)},
                         {1500, or_other(figures.half)},
                         {3000, or_other(figures.end)}};
    result.accuracy = or_other(figures.end);
    result.mean_bits = std::isnan(figures.bits) ? 0.0 : figures.bits;
    result.rounds = run.options.period ? static_cast<std::uint64_t>(3000 / *run.options.period) : 0;
    results.push_back(result);
  }
  return results;
}

NetworkResult& result_named(std::vector<NetworkResult>& results, const std::string& name) {
  return *std::find_if(results.begin(), results.end(), [&](const NetworkResult& each) { return each.run == name; });
}

bool holds(const char* claim, const std::vector<NetworkResult>& results) {
  return judge_claim(claim_named(claim, Subject::networks), Figures(results)).outcome.value().holds;
}

TEST(NetworkRuns, HaveNamesOfTheirOwnAndValidConfigurations) {
  std::set<std::string> names;
  for (const NetworkRun& run : run_table()) {
    EXPECT_TRUE(names.insert(run.name).second) << run.name;
    const RunConfig config = config_of(run, {});
    EXPECT_NO_THROW(require_valid(config)) << run.name;
    EXPECT_EQ(config.task.sampling, "replacement");
    EXPECT_EQ(config.eval_interval, config.task.name == "text" ? 100U : 500U);
  }
  EXPECT_THROW(run_named("def-65"), InvalidConfig);
}

TEST(NetworkRuns, AreSharedByClaims) {
  std::vector<const Claim*> claims;
  std::size_t asked = 0;
  for (const Claim& claim : claims_on(Subject::networks)) {
    claims.push_back(&claim);
    const auto& runs = std::get<NetworkCheck>(claim.check).runs;
    for (const char* name : runs) EXPECT_NO_THROW(run_named(name)) << claim.name;
    asked += runs.size();
  }
  const auto names = runs_of(claims);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_LT(names.size(), asked);
}

TEST(NetworkClaims, FollowTheFiguresOfTheIndependentModels) {
  auto results = independent_results(89.0);
  for (const char* name : {"def-divergence", "def-a-early", "grawa-rounds", "dqsgd-bits", "signum-adam",
                           "sign-adversaries-deep", "sign-ties-deep"}) {
    EXPECT_TRUE(holds(name, results)) << name;
  }
  EXPECT_FALSE(holds("regtopk-deep", results));
}

TEST(NetworkClaims, FallWithTheFigureThatTheyAreAbout) {
  const struct {
    const char* claim;
    const char* run;
    double accuracy;
  } cases[] = {{"def-divergence", "ef-256", 60.0},        {"def-divergence", "def-1024", 80.0},
               {"grawa-rounds", "lsgd-16", 91.0},         {"grawa-crowded", "easgd-8-16-workers", 95.0},
               {"dqsgd-bits", "dqsgd-workers-6", 90.0},   {"signum-adam", "adam", 92.5},
               {"sign-ties-deep", "signum-8-plus", 91.4}, {"sign-adversaries-deep", "signum-7-3-inverting", 79.0}};
  for (const auto& each : cases) {
    auto results = independent_results(89.0);
    result_named(results, each.run).accuracy = each.accuracy;
    EXPECT_FALSE(holds(each.claim, results)) << each.claim << " with " << each.run << " at " << each.accuracy;
  }
}

// By validation losses and bytes: models of language have no accuracy.
TEST(NetworkClaims, OnLanguageAreDecidedByLosses) {
  struct Change {
    const char* run;
    double loss;
    double bytes;
  };
  const auto with = [](const Change& change) {
    auto results = independent_results(std::nan(""));
    const Change usual[] = {{"gpt-adam", 1.5, 1e6},          {"gpt-signum", 1.51, 1e5},
                            {"gpt-topk-1", 1.7, 3e4},        {"gpt-qsgd-6", 1.6, 2e5},
                            {"gpt-block-quant-4", 1.51, 1e5}, {"gpt-def-topk-2", 1.6, 2e4},
                            {"gpt-def-topk-0.2", 1.7, 2e3},  {"gpt-diloco-32", 1.7, 3e4},
                            {"gpt-signum-turns-4", 1.54, 9e3}};
    for (const Change& each : usual) {
      NetworkResult& result = result_named(results, each.run);
      const bool changed = std::string_view(each.run) == change.run;
      result.loss = changed ? change.loss : each.loss;
      result.sent_bytes_per_step = changed ? change.bytes : each.bytes;
    }
    return results;
  };
  const auto usual = with({"", 0.0, 0.0});
  const struct {
    const char* claim;
    std::vector<Change> against;
  } cases[] = {{"signum-gpt", {{"gpt-signum", 1.53, 1e5}}},
               {"signum-turns-gpt", {{"gpt-signum-turns-4", 1.56, 9e3}, {"gpt-signum-turns-4", 1.54, 2e4}}},
               {"topk-adam-fails", {{"gpt-topk-1", 1.55, 3e4}}},
               {"chunk-quant-gpt", {{"gpt-block-quant-4", 1.53, 1e5}, {"gpt-qsgd-6", 1.52, 2e5}}},
               {"def-topk-gpt", {{"gpt-def-topk-2", 1.69, 2e4}, {"gpt-def-topk-2", 1.6, 4e4}}},
               {"diloco-gpt", {{"gpt-def-topk-0.2", 1.8, 2e3}, {"gpt-def-topk-0.2", 1.7, 4e3}}}};
  for (const auto& each : cases) {
    EXPECT_TRUE(holds(each.claim, usual)) << each.claim;
    for (const Change& change : each.against) EXPECT_FALSE(holds(each.claim, with(change))) << each.claim;
  }
  const auto judged = judge_claim(claim_named("signum-gpt", Subject::networks), Figures(usual));
  EXPECT_EQ(judged.outcome->measured, "gpt-adam 1.500, gpt-signum 1.510");
}

TEST(NetworkClaims, NameTheRunsThatAreMissing) {
  auto results = independent_results(89.0);
  EXPECT_EQ(missing(claim_named("signum-adam", Subject::networks), Figures(results)), std::vector<std::string>{});
  EXPECT_EQ(missing(claim_named("grawa-flatness", Subject::networks), Figures(results)).size(), 5U);
  std::erase_if(results, [](const NetworkResult& each) { return each.run == "adam"; });
  EXPECT_EQ(missing(claim_named("signum-adam", Subject::networks), Figures(results)), std::vector<std::string>{"adam"});
}

TEST(NetworkResults, AreTheSameAfterAFile) {
  const TemporaryFolder folder;
  auto results = independent_results(89.0);
  results[0].flatness = {12.5, 0.5, 3.25, 0.25};
  results[1].loss = std::nan("");
  const std::string path = folder.path() + "/results.json";
  std::ofstream(path) << results_json(results);
  const auto again = read_results_json(path);
  EXPECT_EQ(results_json(again), results_json(results));
  EXPECT_EQ(again[0].flatness.largest, 3.25);
  std::ofstream(path) << R"([{"run":"sgd","seed":1,"steps":3000,"accuracy_at":{"x":1}}])";
  EXPECT_THROW(read_results_json(path), InvalidConfig);
  EXPECT_THROW(read_results_json(folder.path() + "/none.json"), InvalidConfig);
  std::ofstream(path) << "[{\"run\":" << std::string(100'000, '[') << std::string(100'000, ']') << "}]";
  try {
    read_results_json(path);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InvalidConfig& error) {
    EXPECT_NE(std::string(error.what()).find(path + ", offset 70: nested more than 64 deep"), std::string::npos)
        << error.what();
  }
}

TEST(NetworkResults, StandInAPageWithVerdicts) {
  auto results = independent_results(89.0);
  result_named(results, "sgd").accuracy = 90.0;
  const std::string section = markdown(Figures(results));
  EXPECT_NE(section.find("| sgd | 8 | 87.6 | 89.6 | 90.6 | 90.0 | 90.0 | 91.9 | -1.9 | **no** |"), std::string::npos)
      << section;
  const std::string marks = std::string(kSectionBegin) + "\nstale figures\n" + kSectionEnd;
  const std::string page = with_section("above\n" + marks + "\nbelow\n", section);
  EXPECT_EQ(page.find("stale"), std::string::npos);
  EXPECT_EQ(with_section(page, section), page);
  EXPECT_TRUE(page.starts_with("above\n") && page.ends_with("\nbelow\n"));
  EXPECT_THROW(with_section("a page without marks", section), InvalidConfig);
}

TEST(NetworkResults, OfOneTaskMakeAPageOfThatTask) {
  NetworkResult result{.run = "gpt-adam", .seed = 1, .steps = 600};
  result.accuracy = std::nan("");
  result.loss = 1.25;
  const std::string section = markdown(Figures({result}));
  EXPECT_NE(section.find("| gpt-adam | 4 |  |  |  | 1.250 | 1.250 |"), std::string::npos) << section;
  EXPECT_NE(section.find("signum-gpt"), std::string::npos) << section;
  EXPECT_EQ(section.find("def-divergence"), std::string::npos) << section;
  EXPECT_EQ(section.find("mgrawa"), std::string::npos) << section;
}

RunOptions small_options(const std::string& out) {
  RunOptions options;
  options.scale = {
      .task = "digits", .model = "mlp", .steps = 12, .workers = 2, .train_samples = 300, .test_samples = 100};
  options.out = out;
  options.seeds = 2;
  options.jobs = 2;
  return options;
}

TEST(NetworkRecords, AreMadeOnceAndGoOnWhereTheyWereCut) {
  const TemporaryFolder folder;
  const std::vector<std::string> names{"def-64", "mgrawa-16"};
  RunOptions options = small_options(folder.path() + "/whole");
  const auto whole = make_runs(names, options);
  ASSERT_EQ(whole.size(), 4U);
  EXPECT_EQ(whole[0].run, "def-64");
  EXPECT_EQ(whole[0].accuracies.size(), 6U);
  EXPECT_EQ(whole[0].after(0.5), whole[0].accuracies.at(6));
  EXPECT_TRUE(fs::exists(folder.path() + "/whole/mgrawa-16/2/model.f32"));
  EXPECT_FALSE(fs::exists(folder.path() + "/whole/mgrawa-16/2/checkpoints"));

  options.watch = [](const Progress& progress, const NetworkResult*) { EXPECT_TRUE(progress.active.empty()); };
  EXPECT_EQ(results_json(make_runs(names, options)), results_json(whole));

  options = small_options(folder.path() + "/cut");
  options.jobs = 1;
  options.watch = [](const Progress& progress, const NetworkResult*) {
    if (!progress.active.empty() && progress.active[0].step == 10) throw Error("cut");
  };
  EXPECT_THROW(make_runs(names, options), Error);
  std::uint32_t first = 12;
  options.watch = [&](const Progress& progress, const NetworkResult*) {
    for (const auto& active : progress.active) {
      if (active.seed == 1 && active.step > 0) first = std::min(first, active.step);
    }
  };
  const auto again = make_runs({"def-64"}, options);
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].accuracies, whole[0].accuracies);
  EXPECT_EQ(again[0].loss, whole[0].loss);
  EXPECT_EQ(first, 10U) << "the checkpoint after 8 steps was not used";
}

TEST(NetworkRecords, HaveFlatnessWhereTheModelWasKept) {
  const TemporaryFolder folder;
  RunOptions options = small_options(folder.path());
  options.seeds = 1;
  const std::vector<std::string> names{"def-64", "mgrawa-16"};
  EXPECT_TRUE(std::isnan(Figures(make_runs(names, options)).trace("mgrawa-16")));
  int told = 0;
  const auto tell = [&](const std::string& run, std::uint64_t seed) {
    EXPECT_EQ(run, "mgrawa-16");
    EXPECT_EQ(seed, 1U);
    ++told;
  };
  measure_flatness(names, options, tell);
  measure_flatness(names, options, tell);
  EXPECT_EQ(told, 1);
  const Figures figures(read_results(names, options));
  EXPECT_GT(figures.trace("mgrawa-16"), 0.0);
  EXPECT_GT(figures.largest("mgrawa-16"), 0.0);
  EXPECT_TRUE(std::isnan(figures.trace("def-64")));
}

TEST(NetworkRecords, GoOnWhereOneFails) {
  const TemporaryFolder folder;
  RunOptions options = small_options(folder.path());
  options.seeds = 1;
  options.jobs = 1;
  // The place of the first run's folder is taken by a file.
  std::ofstream(folder.path() + "/def-64") << "in the way";
  std::vector<std::string> failed;
  options.failed = [&](const std::string& run, const std::string&) { failed.push_back(run); };
  const auto results = make_runs({"def-64", "sgd"}, options);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].run, "sgd");
  EXPECT_EQ(failed, std::vector<std::string>{"def-64 seed 1"});
}

TEST(NetworkRecords, EndWhenTimeIsUpAndRefuseDataThatIsNotThere) {
  const TemporaryFolder folder;
  RunOptions options = small_options(folder.path() + "/runs");
  options.seconds = 1e-9;
  EXPECT_TRUE(make_runs({"sgd"}, options).empty());
  options.scale.task = "fashion-mnist";
  options.data_folder = folder.path();
  EXPECT_THROW(make_runs({"sgd"}, options), Error);
}

}  // namespace
}  // namespace laconic::claims
