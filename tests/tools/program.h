#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/shell.h"
#include "support/support.h"
#include "support/temporary_folder.h"

// The program as a user calls it.

namespace laconic::test {

inline Outcome laconic(const std::string& arguments, const std::string& environment = "") {
  return shell(environment + " '" + LACONIC_PROGRAM + "' " + arguments);
}

/// A folder that is gone at the end of its test.
class Files : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  nlohmann::json json(const std::string& name) const {
    std::ifstream input(file(name));
    return nlohmann::json::parse(input);
  }

  TemporaryFolder own_;
  std::filesystem::path folder_ = own_.path();
};

inline void expect_one_line_error(const Outcome& outcome, int code, const std::string& part) {
  EXPECT_EQ(outcome.code, code) << outcome.text;
  EXPECT_TRUE(outcome.text.starts_with("laconic: ")) << outcome.text;
  EXPECT_EQ(outcome.text.find('\n'), outcome.text.size() - 1) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, part)) << outcome.text;
}

}  // namespace laconic::test
