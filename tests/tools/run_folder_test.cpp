// A run's folder as a user meets it: what is other people's stays, one process writes, and a run goes on as it began.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "support/text_of_file.h"
#include "tools/program.h"

namespace laconic::test {
namespace {

namespace fs = std::filesystem;

const std::string kProblem = "--problem noisy-quadratic --set dimension=20 --workers 2 ";
const std::string kSmall = kProblem + "--steps 8 --checkpoint-interval 3 ";

class RunFolders : public Files {
 protected:
  std::string out(const std::string& name) const { return "--out '" + file(name) + "' "; }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(file(name)).parent_path());
    std::ofstream(file(name)) << text;
  }
  std::string read(const std::string& name) const { return text_of_file(file(name)); }
  /// Puts another value into the run's config.json.
  void edit(const std::string& run, const std::string& section, const std::string& key, const nlohmann::json& value) {
    nlohmann::ordered_json config = nlohmann::ordered_json::parse(read(run + "/config.json"));
    ASSERT_TRUE(config.at(section).contains(key));
    config[section][key] = value;
    write(run + "/config.json", config.dump(2));
  }
};

TEST_F(RunFolders, OfOthersLoseNothing) {
  const std::string model = "mine/model.safetensors";
  const std::string checkpoint = "mine/checkpoints/step-0000000001/rank-0.state";
  for (const bool whole : {true, false}) {
    fs::remove_all(file("mine"));
    if (whole) write(model, "weights of a week");
    write(checkpoint, "state");
    for (const char* overwrite : {"", "--overwrite"}) {
      expect_one_line_error(laconic("train " + kSmall + out("mine") + overwrite), 1, file("mine") + " has ");
    }
    EXPECT_EQ(read(model), whole ? "weights of a week" : "");
    EXPECT_EQ(read(checkpoint), "state");
    EXPECT_FALSE(fs::exists(file("mine/config.json")));
  }
  write("theirs/sgd/model.safetensors", "weights");
  for (const char* overwrite : {"", "--overwrite"}) {
    expect_one_line_error(laconic("compare --methods topk,sgd " + kSmall + out("theirs") + overwrite), 1,
                          file("theirs/sgd") + " has ");
  }
  EXPECT_EQ(read("theirs/sgd/model.safetensors"), "weights");
  EXPECT_FALSE(fs::exists(file("theirs/topk/config.json"))) << "found before the first run";
}

// Many programs write a config.json.
TEST_F(RunFolders, OfAnotherProgramAreNotOverwritten) {
  write("theirs/config.json", R"({"architectures": ["Bert"], "method": "x"})");
  write("theirs/model.safetensors", "weights");
  write("theirs/result.json.tmp123", "theirs");
  for (const char* overwrite : {"", "--overwrite"}) {
    const Outcome outcome = laconic("train " + kSmall + out("theirs") + overwrite);
    expect_one_line_error(outcome, 1, file("theirs"));
    if (*overwrite != '\0') {
      EXPECT_TRUE(contains(outcome.text, "no run of laconic")) << outcome.text;
    }
  }
  EXPECT_EQ(read("theirs/config.json"), R"({"architectures": ["Bert"], "method": "x"})");
  EXPECT_EQ(read("theirs/model.safetensors"), "weights");
  EXPECT_EQ(read("theirs/result.json.tmp123"), "theirs");
}

TEST_F(RunFolders, ThatAreOverwrittenLoseOnlyTheRun) {
  ASSERT_EQ(laconic("train " + kSmall + out("run")).code, 0);
  ASSERT_TRUE(fs::exists(file("run/checkpoints/step-0000000003")));
  const std::vector<std::string> mine{"run/notes.txt", "run/checkpoints/notes.txt", "run/checkpoints/step-best/weights",
                                      "run/checkpoints/download.partial/weights",
                                      "run/checkpoints/step-0000000001/weights"};
  for (const std::string& name : mine) write(name, "mine");
  const Outcome outcome = laconic("train " + kProblem + "--steps 8 --checkpoint-interval 7 --overwrite " + out("run"));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const std::string& name : mine) EXPECT_EQ(read(name), "mine") << name;
  EXPECT_FALSE(fs::exists(file("run/checkpoints/step-0000000003"))) << "the earlier run's";
  EXPECT_FALSE(fs::exists(file("run/checkpoints/step-0000000006")));
  EXPECT_TRUE(fs::exists(file("run/checkpoints/step-0000000007/rank-1.state")));
  EXPECT_FALSE(fs::exists(file("run/.laconic.lock")));
}

// What would be refused must not have cost the earlier run.
TEST_F(RunFolders, AreNotTouchedByARunThatCannotBegin) {
  ASSERT_EQ(laconic("train " + kSmall + out("run")).code, 0);
  const std::string before = read("run/config.json") + read("run/metrics.jsonl") + read("run/result.json");
  // Each value is allowed by itself, so the method finds it.
  const std::string together = "--method def --order engine --values f16 ";
  expect_one_line_error(laconic("train " + kSmall + together + "--overwrite " + out("run")), 2, "order = engine");
  EXPECT_EQ(read("run/config.json") + read("run/metrics.jsonl") + read("run/result.json"), before);
}

TEST_F(RunFolders, OfEditedRunsDoNotGoOn) {
  const std::string begun = "train " + kSmall + "--method signum --beta 0.5 " + out("begun");
  ASSERT_EQ(laconic(begun).code, 0);
  struct Edit {
    const char* section;
    const char* key;
    nlohmann::json value;
    const char* said;
  };
  const Edit edits[] = {{"run", "seed", 2, "run.seed = 1, this run has 2"},
                        {"run", "steps", 20, "run.steps = 8, this run has 20"},
                        {"run", "learning_rate", 0.5, "run.learning_rate = 0.01, this run has 0.5"},
                        {"run", "nonfinite", "skip", "run.nonfinite = error, this run has skip"},
                        {"run", "schedule", "5:0.5", "run.schedule = none, this run has 5:0.5"},
                        {"problem", "noise", 7, "problem.noise = 100, this run has 7"},
                        {"method", "beta", 0.25, "method.beta = 0.5, this run has 0.25"},
                        {"optimizer", "weight_decay", 0.5, "optimizer.weight_decay = 0, this run has 0.5"}};
  for (const Edit& each : edits) {
    fs::remove_all(file("run"));
    fs::copy(file("begun"), file("run"), fs::copy_options::recursive);
    edit("run", each.section, each.key, each.value);
    const std::string before = read("run/metrics.jsonl");
    const Outcome outcome = laconic("train --resume '" + file("run") + "'");
    expect_one_line_error(outcome, 2, each.said);
    EXPECT_TRUE(contains(outcome.text, "step-0000000006")) << outcome.text;
    EXPECT_EQ(read("run/metrics.jsonl"), before) << each.key;
    EXPECT_EQ(read("run/result.json"), read("begun/result.json"));
  }
  fs::remove_all(file("run"));
  fs::copy(file("begun"), file("run"), fs::copy_options::recursive);
  for (const char* flag : {"--method sgd", "--out elsewhere", "--overwrite", "--problem vincent", "--task digits",
                           "--config run.toml", "--set steps=9", "--steps 9", "--beta 0.25"}) {
    const std::string name = std::string(flag).substr(0, std::string(flag).find(' '));
    expect_one_line_error(laconic("train --resume '" + file("run") + "' " + flag), 2, "as it was configured: remove " + name);
  }
  edit("run", "run", "timeout", 30);
  edit("run", "run", "threads", 2);
  const Outcome outcome = laconic("train --resume '" + file("run") + "' --json");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(nlohmann::json::parse(outcome.text).at("loss"), json("begun/result.json").at("loss"));
}

// The last rank alone finds its file damaged in a way that its checksum does not show: it is another run's.
TEST_F(RunFolders, OfOneRankOfAnotherRunDoNotGoOn) {
  ASSERT_EQ(laconic("train " + kSmall + out("run")).code, 0);
  ASSERT_EQ(laconic("train " + kSmall + "--seed 2 " + out("other")).code, 0);
  const std::string state = "/checkpoints/step-0000000006/rank-1.state";
  fs::copy_file(file("other" + state), file("run" + state), fs::copy_options::overwrite_existing);
  const std::string before = read("run/metrics.jsonl");
  expect_one_line_error(laconic("train --resume '" + file("run") + "'"), 2, "run.seed = 2, this run has 1");
  EXPECT_EQ(read("run/metrics.jsonl"), before);
}

TEST_F(RunFolders, AreWrittenByOneProcess) {
  const std::string endless =
      "exec '" LACONIC_PROGRAM "' train " + kProblem + "--steps 100000000 --eval-interval 0 " +
      "--checkpoint-interval 2000 " + out("runs/sgd") + "> '" + file("said") + "' 2>&1";
  const pid_t first = fork();
  if (first == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl("/bin/sh", "sh", "-c", endless.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  const auto begun = [&] { return fs::exists(file("runs/sgd/checkpoints/step-0000002000")); };
  for (int i = 0; i < 6000 && !begun(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(begun()) << read("said");
  const std::string who = "(process " + std::to_string(first) + " on ";
  expect_one_line_error(laconic("train " + kSmall + "--overwrite " + out("runs/sgd")), 1, who);
  expect_one_line_error(laconic("train --resume '" + file("runs/sgd") + "'"), 1, who);
  expect_one_line_error(laconic("compare --methods sgd " + kSmall + "--overwrite " + out("runs")), 1, who);
  kill(first, SIGKILL);
  waitpid(first, nullptr, 0);
  EXPECT_TRUE(fs::exists(file("runs/sgd/.laconic.lock"))) << "left by the killed one";
  EXPECT_EQ(laconic("train " + kSmall + "--overwrite " + out("runs/sgd")).code, 0);
}

}  // namespace
}  // namespace laconic::test
