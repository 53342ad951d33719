#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/task.h"

namespace laconic {

/// Throws Error "FILE, offset N: expected …, found …; remedy". Offsets count decompressed bytes.
[[noreturn]] void wrong_file(const std::string& path, std::uint64_t offset, const std::string& expected,
                             const std::string& found);

/// The bytes of a file, decompressed if its name ends in .gz or .xz. Errors about a wrong file name the file, the
/// offset and what was expected.
class DataFile {
 public:
  /// Reads the task's file. Throws Error if it is missing, cannot be read, is damaged, or has more than `most` bytes.
  DataFile(const TaskRow& row, const std::string& data_folder, std::string_view file, std::uint64_t most);

  const std::string& path() const { return path_; }
  std::span<const std::uint8_t> bytes() const { return bytes_; }
  std::uint64_t size() const { return bytes_.size(); }

  /// The big-endian number in four bytes. The caller must make sure that they exist.
  std::uint32_t number(std::uint64_t offset) const;
  /// Throws Error unless the file has exactly `bytes` bytes. `holds` describes its contents in the message.
  void require_size(std::uint64_t bytes, const std::string& holds) const;
  [[noreturn]] void wrong(std::uint64_t offset, const std::string& expected, const std::string& found) const {
    wrong_file(path_, offset, expected, found);
  }

 private:
  std::string path_;
  std::vector<std::uint8_t> bytes_;
};

/// Detects a file that also lies under another file's name, such as the test images in place of the training images. It
/// works because no two files of a task begin with the same bytes.
class FirstBytes {
 public:
  /// Throws Error if the bytes after the header equal those of a file that was added before.
  void add(const DataFile& file, std::uint64_t header = 0);

 private:
  struct Seen {
    std::string path;
    std::vector<std::uint8_t> bytes;
  };
  std::vector<Seen> seen_;
};

/// A file's bytes as they are on disk. Throws Error if it cannot be read, and before reading if it has more than `most`
/// bytes.
std::vector<std::uint8_t> read_bytes(const std::string& path, std::uint64_t most);

/// Decompresses .gz or .xz bytes. `path` is for messages. Throws Error if they are damaged, if they decompress to more
/// than `most` bytes, or if this build has no zlib or liblzma.
std::vector<std::uint8_t> from_gz(const std::string& path, std::span<const std::uint8_t> packed, std::uint64_t most);
std::vector<std::uint8_t> from_xz(const std::string& path, std::span<const std::uint8_t> packed, std::uint64_t most);

}  // namespace laconic
