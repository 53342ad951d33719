#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/support.h"

// The program as a user calls it.

namespace laconic::test {

struct Outcome {
  int code = -1;
  std::string text;
};

/// Runs a shell command with its errors among its output.
inline Outcome shell(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) outcome.text += buffer;
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

inline Outcome laconic(const std::string& arguments, const std::string& environment = "") {
  return shell(environment + " '" + LACONIC_PROGRAM + "' " + arguments);
}

/// A folder that is gone at the end of its test.
class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("laconic_program_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  nlohmann::json json(const std::string& name) const {
    std::ifstream input(file(name));
    return nlohmann::json::parse(input);
  }

  std::filesystem::path folder_;
};

inline void expect_one_line_error(const Outcome& outcome, int code, const std::string& part) {
  EXPECT_EQ(outcome.code, code) << outcome.text;
  EXPECT_TRUE(outcome.text.starts_with("laconic: ")) << outcome.text;
  EXPECT_EQ(outcome.text.find('\n'), outcome.text.size() - 1) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, part)) << outcome.text;
}

}  // namespace laconic::test
