// What was probably meant, and silence where nothing is near.

#include "base/suggestion.h"

#include <gtest/gtest.h>

#include <vector>

namespace laconic {
namespace {

const std::vector<std::string> kNames{"sgd", "topk", "regtopk", "signsgd", "localsgd", "linear-regression"};

TEST(Suggestion, IsTheNearestName) {
  EXPECT_EQ(nearest_name("topp", kNames), "topk");
  EXPECT_EQ(nearest_name("regtop", kNames), "regtopk");
  EXPECT_EQ(nearest_name("sdg", kNames), "sgd");
  EXPECT_EQ(nearest_name("singsgd", kNames), "signsgd");
  EXPECT_EQ(nearest_name("linear-regresion", kNames), "linear-regression");
}

TEST(Suggestion, OverlooksCaseAndDashes) {
  EXPECT_EQ(nearest_name("RegTopK", kNames), "regtopk");
  EXPECT_EQ(nearest_name("linear_regression", kNames), "linear-regression");
  EXPECT_EQ(nearest_name("Top-k", kNames), "topk");
}

TEST(Suggestion, IsANameThatContainsIt) {
  EXPECT_EQ(nearest_name("linear", kNames), "linear-regression");
  EXPECT_EQ(nearest_name("regression", kNames), "linear-regression");
}

TEST(Suggestion, IsNoneWhereNothingIsNear) {
  for (const char* name : {"banana", "x", "", "gdl", "powersgd-rank"})
    EXPECT_EQ(nearest_name(name, kNames), "") << name;
  EXPECT_EQ(nearest_name("topk", {}), "");
}

TEST(Suggestion, OfFlagsGoesByTheirNames) {
  const std::vector<std::string> flags{"--keep", "--workers"};
  EXPECT_EQ(nearest_name("--kep", flags), "--keep");
  EXPECT_EQ(nearest_name("--worker", flags), "--workers");
  EXPECT_EQ(nearest_name("--wings", flags), "");
}

TEST(Suggestion, ListsWhatThereIsInstead) {
  EXPECT_EQ(did_you_mean("topp", kNames), "; did you mean topk?");
  EXPECT_EQ(did_you_mean("banana", std::vector<std::string>{"sgd", "topk"}), "; there are sgd, topk");
  EXPECT_EQ(did_you_mean("banana", {}), "");
}

}  // namespace
}  // namespace laconic
