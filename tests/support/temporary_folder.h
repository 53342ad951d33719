#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace laconic::test {

/// A new folder that is removed with its contents when the test ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::path(::testing::TempDir()) / "laconic_XXXXXX").string();
};

/// A test with a temporary folder of its own.
class InTemporaryFolder : public ::testing::Test {
 protected:
  /// Writes a file there. Returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  const TemporaryFolder own_;
  const std::filesystem::path folder_ = own_.path();
};

}  // namespace laconic::test
