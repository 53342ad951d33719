#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace laconic::test {

/// The file's bytes; empty if it cannot be opened.
inline std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream input(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

}  // namespace laconic::test
