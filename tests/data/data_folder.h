#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/task.h"
#include "laconic/error.h"

namespace laconic::testing {

using Bytes = std::vector<std::uint8_t>;

/// A data folder of the test that runs, removed at its end.
class DataFolder {
 public:
  DataFolder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) /
            ("laconic_" + std::to_string(getpid()) + "_" + test->test_suite_name() + "_" + test->name());
    std::filesystem::create_directories(path_);
  }
  ~DataFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

  void write(const std::string& name, const Bytes& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream output(path_ / name, std::ios::binary);
    output.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  void write(const std::string& name, const std::string& text) const { write(name, Bytes(text.begin(), text.end())); }
  void remove(const std::string& name) const { std::filesystem::remove(path_ / name); }

  std::shared_ptr<const Task> make(const std::string& task, TaskOptions options = {}) const {
    options.data_folder = path();
    return make_task(task, options);
  }

  /// What make() says of a wrong file.
  std::string complaint(const std::string& task, const TaskOptions& options = {}) const {
    try {
      make(task, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

 private:
  std::filesystem::path path_;
};

}  // namespace laconic::testing

#define EXPECT_SAYS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "it says: " << (text) << "\nwithout: " << (part)
