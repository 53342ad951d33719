// Runs are read from their folders as far as they went, what is no run is refused with file and line, and the page's
// data is what the run recorded.

#include "records/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "laconic/error.h"
#include "records/formats.h"
#include "records/writer.h"
#include "support/support.h"
#include "support/temporary_folder.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;

const std::string kConfig =
    R"({"run": {"workers": 2, "seed": 1}, "problem": {"name": "toy"}, "method": {"name": "topk"}})";
const std::string kLine =
    R"({"step": 1, "loss": 0.5, "sent_bytes": 10, "sent_bytes_by_rank": [10, 12], "step_seconds": 0.1})";
const std::string kNext =
    R"({"step": 2, "loss": 0.4, "sent_bytes": 10, "sent_bytes_by_rank": [20, 24], "step_seconds": 0.2})";

class Report : public testing::Test {
 protected:
  /// A run's folder with these metrics.
  std::string run(const std::string& name, const std::string& metrics, const std::string& config = kConfig) const {
    fs::create_directories(folder_ / name);
    std::ofstream(folder_ / name / "config.json") << config;
    std::ofstream(folder_ / name / "metrics.jsonl") << metrics;
    return (folder_ / name).string();
  }

  std::string refusal(const std::string& metrics) const {
    const std::string folder = run("refused", metrics);
    return message_of<InvalidConfig>([&] { read_run(folder); });
  }

  /// As train --out leaves it.
  std::string real_run(const std::string& name, const RunConfig& config) const {
    const fs::path folder = folder_ / name;
    RunFolder files(folder.string(), config, Earlier::overwritten);
    files.finish(run_threads(config, &files).front());
    return folder.string();
  }

  test::TemporaryFolder own_;
  fs::path folder_ = own_.path();
};

RunConfig small(const std::string& method) {
  RunConfig config = default_config("logistic-regression");
  config.problem_settings = {{"dimension", 20}, {"points", 30}};
  config.method = method;
  config.workers = 3;
  config.steps = 12;
  config.eval_interval = 5;
  return config;
}

TEST_F(Report, ReadsWhatARunLeft) {
  const RecordedRun read = read_run(real_run("one", small("topk")));
  const auto result = nlohmann::json::parse(std::ifstream(folder_ / "one" / "result.json"));
  EXPECT_EQ(read.method, "topk");
  EXPECT_EQ(read.subject, "logistic-regression");
  EXPECT_EQ(read.settings.at("problem.points"), "30");
  EXPECT_TRUE(read.notes.empty()) << read.notes.front();
  ASSERT_EQ(read.steps.size(), 12U);
  ASSERT_EQ(read.evaluations.size(), 3U);
  EXPECT_TRUE(read.end.finished);
  EXPECT_EQ(read.end.loss, result.at("loss"));
  EXPECT_EQ(read.evaluations.back().loss, result.at("loss"));
  EXPECT_TRUE(std::isnan(read.end.accuracy));
  const std::vector<std::uint64_t> sent = result.at("sent_bytes_by_rank");
  const std::uint64_t most = *std::max_element(sent.begin(), sent.end());
  EXPECT_EQ(read.evaluations.back().sent_bytes, most);
  EXPECT_EQ(read.end.total_sent_bytes, static_cast<double>(most));
  EXPECT_DOUBLE_EQ(read.end.sent_bytes_per_step, static_cast<double>(most) / 12);
  EXPECT_EQ(read.steps.back().sent_bytes, sent[0]);
  EXPECT_NEAR(read.evaluations.back().seconds, result.at("step_seconds").get<double>(), 1e-9);
}

TEST_F(Report, SaysWhichGpuComputedARun) {
  const RunConfig config = default_task_config("digits", "sgd");
  RunResult result;
  result.device = "a GPU, in its own way";
  const std::string folder = run("gpu", kLine + "\n");
  std::ofstream(folder_ / "gpu" / "result.json") << result_json(config, result);
  EXPECT_EQ(read_run(folder).notes, std::vector<std::string>{"computed on a GPU, in its own way"});
  result.device = "cpu";
  std::ofstream(folder_ / "gpu" / "result.json") << result_json(config, result);
  EXPECT_TRUE(read_run(folder).notes.empty());
}

TEST_F(Report, ReadsAnAsynchronousRunByRank0) {
  // Its ranks meet at the last evaluation only; the others' bytes before it are not known.
  const std::string alone = R"({"step": 1, "loss": 0.5, "sent_bytes": 10, "step_seconds": 0.1})";
  const RecordedRun read = read_run(run("async", alone + "\n" + kNext + "\n"));
  EXPECT_FALSE(read.by_rank);
  ASSERT_EQ(read.evaluations.size(), 2U);
  EXPECT_EQ(read.evaluations[0].sent_bytes, 10U);
  EXPECT_EQ(read.evaluations[1].sent_bytes, 20U);
  EXPECT_TRUE(contains(read.notes.front(), "rank 0"));
}

TEST_F(Report, ToleratesARunThatWasCut) {
  const RecordedRun cut = read_run(run("cut", kLine + "\n" + kNext + "\n" + kNext.substr(0, 40)));
  EXPECT_EQ(cut.steps.size(), 2U);
  EXPECT_EQ(cut.end.loss, 0.4);
  EXPECT_EQ(cut.end.total_sent_bytes, 24.0);
  EXPECT_DOUBLE_EQ(cut.end.step_seconds, 0.15);
  EXPECT_FALSE(cut.end.finished);
  ASSERT_EQ(cut.notes.size(), 2U);
  EXPECT_TRUE(contains(cut.notes[0], "line 3")) << cut.notes[0];
  EXPECT_TRUE(contains(cut.notes[1], "result.json")) << cut.notes[1];
  EXPECT_TRUE(contains(read_run(run("empty", "")).notes.front(), "no step"));
  EXPECT_FALSE(report_json({read_run(run("empty", ""))}).empty());
  // The others of an asynchronous run may have used up all steps.
  const std::string ended = run("ended", "");
  std::ofstream(fs::path(ended) / "result.json") << "{\"loss\": 1, \"rounds\": 2}";
  EXPECT_EQ(read_run(ended).notes, std::vector<std::string>{"rank 0 made no step, so there are no curves"});
}

TEST_F(Report, CountsAResumedRunOnce) {
  const RecordedRun resumed = read_run(run("resumed", kLine + "\n" + kNext + "\n" + kNext + "\n"));
  EXPECT_EQ(resumed.steps.size(), 2U);
  EXPECT_EQ(resumed.evaluations.size(), 2U);
  EXPECT_EQ(resumed.steps.back().sent_bytes, 20U);
  EXPECT_TRUE(contains(resumed.notes.front(), "resumed at step 2"));
}

TEST_F(Report, RefusesNonsenseWithFileAndLine) {
  const auto second = [&](const std::string& line) { return refusal(kLine + "\n" + line + "\n" + kNext + "\n"); };
  for (const char* nonsense :
       {"", "nonsense", "[1, 2]", "{\"step\": 2", "{\"loss\": 1}", "{\"step\": -1}", "{\"step\": 2.5}",
        "{\"step\": 2, \"loss\": \"low\"}", "{\"step\": 2, \"loss\": 1, \"accuracy\": 1.5}",
        "{\"step\": 2, \"loss\": 1, \"sent_bytes_by_rank\": [1, -2]}",
        "{\"step\": 2, \"loss\": 1, \"sent_bytes_by_rank\": 3}", "{\"step\": 2, \"bits\": -4}",
        "{\"step\": 2, \"step_seconds\": true}"}) {
    const std::string told = second(nonsense);
    EXPECT_TRUE(contains(told, "metrics.jsonl, line 2")) << nonsense << ": " << told;
  }
  EXPECT_TRUE(contains(second("{\"step\": 2, \"loss\": 1, \"accuracy\": 1.5}"), "0 to 1"));
  EXPECT_TRUE(contains(refusal(kLine + "\nnonsense\n"), "line 2")) << "a whole line is not cut";
}

TEST_F(Report, RefusesWhatIsNoRun) {
  const auto told = [&](const std::string& path) { return message_of<InvalidConfig>([&] { read_runs({path}); }); };
  EXPECT_TRUE(contains(told((folder_ / "nowhere").string()), "nowhere"));
  EXPECT_TRUE(contains(told(folder_.string()), "is no run"));
  EXPECT_TRUE(contains(told(run("broken", kLine, "{\"run\":")), "config.json is no JSON"));
  EXPECT_TRUE(contains(told(run("nameless", kLine, "{}")), "names no method"));
  fs::remove(folder_ / "broken" / "config.json");
  EXPECT_TRUE(contains(told((folder_ / "broken").string()), "config.json"));
  const std::string wrong = run("wrong", kLine);
  std::ofstream(fs::path(wrong) / "result.json") << "{\"loss\": 1, \"rounds\": \"many\"}";
  EXPECT_TRUE(contains(told(wrong), "result.json has \"rounds\": \"many\""));
}

// Whatever walks over nested values recurses: a hundred thousand levels would overflow the stack.
TEST_F(Report, RefusesWhatIsNestedTooDeep) {
  const auto told = [&](const std::string& path) { return message_of<InvalidConfig>([&] { read_run(path); }); };
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const std::string config = R"({"method": {"name": "topk", "list": )" + deep + "}}";
  EXPECT_TRUE(contains(told(run("config", kLine, config)),
                       "config.json, offset 98: nested more than 64 deep, the most that is read"))
      << told(run("config", kLine, config)).substr(0, 500);
  EXPECT_TRUE(contains(told(run("line", kLine + "\n{\"step\": " + deep + "}\n")), "metrics.jsonl, line 2, offset 72"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  const std::string result = run("result", kLine);
  std::ofstream(fs::path(result) / "result.json") << objects;
  EXPECT_TRUE(contains(told(result), "result.json, offset 320: nested more than 64 deep"));
}

TEST_F(Report, ReadsWhatIsNestedAsDeepAsMayBeAndBracketsInTexts) {
  const auto config = [](const std::string& value) {
    return R"({"method": {"name": "topk", "list": )" + value + "}}";
  };
  const std::string deepest = std::string(62, '[') + std::string(62, ']');
  EXPECT_EQ(read_run(run("deepest", kLine, config(deepest))).settings.at("method.list"), deepest);
  const std::string brackets(1000, '[');
  EXPECT_EQ(read_run(run("text", kLine, config('"' + brackets + R"(\")" + brackets + '"'))).settings.at("method.list"),
            brackets + '"' + brackets);
}

TEST_F(Report, TakesFoldersOfRunsInTheTablesOrder) {
  const auto config = [](const std::string& method) { return "{\"method\": {\"name\": \"" + method + "\"}}"; };
  run("all/a", kLine, config("topk"));
  run("all/b", kLine, config("sgd"));
  run("all/c", kLine, config("unheard"));
  const auto runs = read_runs({(folder_ / "all").string(), (folder_ / "all" / "a").string()});
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_EQ(runs[0].method, "sgd");
  EXPECT_EQ(runs[1].method, "topk");
  EXPECT_EQ(runs[2].method, "unheard");
  EXPECT_EQ(runs[3].method, "topk");
}

TEST_F(Report, NamesRunsApart) {
  const auto made = [&](const std::string& name, int seed, const std::string& more) {
    return read_run(
        run(name, kLine, "{\"run\": {\"seed\": " + std::to_string(seed) + more + "}, \"method\": {\"name\": \"m\"}}"));
  };
  EXPECT_EQ(run_labels({made("a", 1, "")}), (std::vector<std::string>{"m"}));
  EXPECT_EQ(run_labels({made("a", 1, ""), made("b", 2, "")}), (std::vector<std::string>{"m seed=1", "m seed=2"}));
  EXPECT_EQ(run_labels({made("a", 1, ""), made("b", 1, "")}), (std::vector<std::string>{"m (a)", "m (b)"}));
  EXPECT_EQ(run_labels({made("a", 1, ""), made("a", 1, "")}), (std::vector<std::string>{"m (a)", "m (a) #2"}));
  EXPECT_EQ(run_labels({made("a", 1, ", \"x\": 1, \"y\": 1"), made("b", 2, "")}),
            (std::vector<std::string>{"m (a)", "m (b)"}));
}

TEST_F(Report, ThinsLongRunsAndKeepsTheirPeaks) {
  std::vector<double> values(100'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 7);
  values[54'321] = 1e6;
  values[12'345] = -1e6;
  const auto rows = thinned_rows({values, std::vector<double>(values.size(), std::nan(""))}, values.size());
  EXPECT_LE(rows.size(), 2 * 2 * kStretches + 2);
  EXPECT_GE(rows.size(), kStretches);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(rows.front(), 0U);
  EXPECT_EQ(rows.back(), values.size() - 1);
  EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), 54'321U));
  EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), 12'345U));
  EXPECT_EQ(thinned_rows({values}, kPlainRows).size(), kPlainRows);
  EXPECT_TRUE(thinned_rows({{}}, 0).empty());
}

TEST_F(Report, DataCannotLeaveItsScriptElement) {
  const auto text = report_json({read_run(run("a", kLine, "{\"method\": {\"name\": \"</script><!--\"}}"))});
  EXPECT_FALSE(contains(text, "<")) << text;
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("runs")[0].at("label"), "</script><!--");
  EXPECT_EQ(json.at("runs")[0].at("evaluations").at("loss"), nlohmann::json({0.5}));
  EXPECT_FALSE(json.at("runs")[0].at("evaluations").contains("accuracy")) << "what nobody measured is left out";
}

}  // namespace
}  // namespace laconic
