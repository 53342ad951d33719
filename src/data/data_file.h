#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/task.h"

namespace laconic {

/// Error "FILE, offset N: expected …, found …; remedy". Offsets count decompressed bytes.
[[noreturn]] void wrong_file(const std::string& path, std::uint64_t offset, const std::string& expected,
                             const std::string& found);

/// The bytes of a file, decompressed where its name ends in .gz or .xz. What it says about a wrong file names the file,
/// the offset and what was expected.
class DataFile {
 public:
  /// The task's file. Error if it is missing, cannot be read, is damaged, or holds more than `most` bytes.
  DataFile(const TaskRow& row, const std::string& data_folder, std::string_view file, std::uint64_t most);

  const std::string& path() const { return path_; }
  std::span<const std::uint8_t> bytes() const { return bytes_; }
  std::uint64_t size() const { return bytes_.size(); }

  /// Four bytes, the highest first; the caller has made sure that they exist.
  std::uint32_t number(std::uint64_t offset) const;
  /// Error unless the file has exactly so many bytes: `holds` says what they are.
  void require_size(std::uint64_t bytes, const std::string& holds) const;
  [[noreturn]] void wrong(std::uint64_t offset, const std::string& expected, const std::string& found) const {
    wrong_file(path_, offset, expected, found);
  }

 private:
  std::string path_;
  std::vector<std::uint8_t> bytes_;
};

/// Tells a file that lies under another's name as well, such as the test images in place of the training images: no two
/// files of a task begin alike.
class FirstBytes {
 public:
  /// Error if the bytes that follow the header are those of a file that was added before.
  void add(const DataFile& file, std::uint64_t header = 0);

 private:
  struct Seen {
    std::string path;
    std::vector<std::uint8_t> bytes;
  };
  std::vector<Seen> seen_;
};

/// A file's bytes as they are on disk. Error if it cannot be read; before it is, if it has more than `most`.
std::vector<std::uint8_t> read_bytes(const std::string& path, std::uint64_t most);

/// What .gz or .xz bytes hold; `path` is for messages, `most` the number of bytes beyond which they are refused.
/// Error where they are damaged, or this build has no zlib or liblzma.
std::vector<std::uint8_t> from_gz(const std::string& path, std::span<const std::uint8_t> packed, std::uint64_t most);
std::vector<std::uint8_t> from_xz(const std::string& path, std::span<const std::uint8_t> packed, std::uint64_t most);

}  // namespace laconic
