// laconic diagnose as a user calls it.

#include <cmath>

#include "tools/program.h"

namespace laconic::test {
namespace {

#if LACONIC_TORCH

// Small enough for a second, whatever else runs.
const std::string kSmall = " --train-samples 200 --model mlp --workers 3 --batch 8";
const std::string kQuick = " --batches 2 --samples 20 --probes 2 --starts 2 --lanczos-steps 2";

std::string quoted(const std::string& path) {
  std::string text = "'";
  text += path;
  return text += "'";
}

nlohmann::json finding(const nlohmann::json& all, const std::string& name) {
  for (const auto& each : all.at("findings")) {
    if (each.at("measure") == name) return each;
  }
  return {};
}

TEST_F(Files, OfADiagnosisOfAStart) {
  const Outcome outcome = laconic("diagnose --task digits" + kSmall + kQuick + " --json " + quoted(file("it.json")));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_PRED2(contains, outcome.text, "digits with mlp, 269322 parameters, 3 workers");
  EXPECT_PRED2(contains, outcome.text, "the start");
  const nlohmann::json all = json("it.json");
  EXPECT_EQ(all.at("gradients"), 6);
  EXPECT_TRUE(all.at("checkpoint").is_null());
  for (const char* name :
       {"gradient_density", "noise_density", "noise_to_signal", "energy_top_thousandth", "energy_top_hundredth",
        "energy_top_tenth", "sign_majority", "sign_unanimous", "silent", "hessian_trace", "largest_eigenvalue"}) {
    const nlohmann::json each = finding(all, name);
    ASSERT_TRUE(each.is_object()) << name;
    EXPECT_TRUE(each.at("meaning").get<std::string>().ends_with(".")) << name;
    EXPECT_PRED2(contains, outcome.text, each.at("meaning").get<std::string>());
  }
  EXPECT_TRUE(finding(all, "hessian_trace").at("standard_error").is_number());
  EXPECT_EQ(finding(all, "sign_majority").at("beside"), 0.75);
  EXPECT_NEAR(all.at("loss"), std::log(10.0), 0.2);
}

TEST_F(Files, OfADiagnosisWithOneTryHaveNoError) {
  const Outcome outcome =
      laconic("diagnose --task digits" + kSmall +
              " --batches 1 --samples 20 --probes 1 --starts 1 --lanczos-steps 2 --json " + quoted(file("it.json")));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(finding(json("it.json"), "hessian_trace").at("standard_error").is_null());
  EXPECT_PRED2(contains, outcome.text, "unknown");
  EXPECT_FALSE(contains(outcome.text, "nan")) << outcome.text;
}

TEST_F(Files, OfADiagnosisOfARun) {
  const std::string run = quoted(file("run"));
  const Outcome trained = laconic(
      "train --task digits --test-samples 20 --method signum --steps 4 --checkpoint-interval 2 --out " + run + kSmall);
  ASSERT_EQ(trained.code, 0) << trained.text;
  const Outcome newest = laconic("diagnose " + run + kQuick + " --json");
  ASSERT_EQ(newest.code, 0) << newest.text;
  const auto all = nlohmann::json::parse(newest.text);
  EXPECT_EQ(all.at("step"), 2);
  EXPECT_EQ(all.at("method"), "signum");
  EXPECT_EQ(all.at("batch"), 8);
  const Outcome named =
      laconic("diagnose --json " + run + "/checkpoints/step-0000000002" + kQuick);  // the word is the checkpoint
  EXPECT_EQ(named.text, newest.text);
  const Outcome start = laconic("diagnose " + run + " --start --json" + kQuick);
  ASSERT_EQ(start.code, 0) << start.text;
  EXPECT_NE(nlohmann::json::parse(start.text).at("loss"), all.at("loss"));
  const Outcome gradients = laconic("diagnose " + run + " --samples 0 --batches 1");
  ASSERT_EQ(gradients.code, 0) << gradients.text;
  EXPECT_FALSE(contains(gradients.text, "Hessian")) << gradients.text;

  expect_one_line_error(laconic("diagnose " + run + " --model cnn"), 2, "leave --model out");
  expect_one_line_error(laconic("diagnose " + run + " --task digits"), 2, "--task");
  std::filesystem::resize_file(folder_ / "run/checkpoints/step-0000000002/rank-1.state", 100);
  expect_one_line_error(laconic("diagnose " + run + kQuick), 1, "rank-1.state is damaged");
}

TEST_F(Files, ThatCannotBeDiagnosed) {
  expect_one_line_error(laconic("diagnose"), 2, "--task");
  expect_one_line_error(laconic("diagnose " + quoted(file("nothing"))), 1, "there is no folder");
  expect_one_line_error(laconic("diagnose --task digit"), 2, "digits");
  expect_one_line_error(laconic("diagnose --task digits --probes 0"), 2, "--probes");
  expect_one_line_error(laconic("diagnose --task digits --start"), 2, "--start");
  const std::string run = quoted(file("run"));
  ASSERT_EQ(laconic("train --problem logistic-toy --steps 2 --checkpoint-interval 1 --out " + run).code, 0);
  expect_one_line_error(laconic("diagnose " + run), 2, "logistic-toy");
}

#else

TEST(Diagnose, SaysThatItNeedsPyTorch) {
  expect_one_line_error(laconic("diagnose --task digits"), 2, "built without PyTorch");
}

#endif

}  // namespace
}  // namespace laconic::test
