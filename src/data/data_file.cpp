#include "data/data_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "laconic/error.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;

std::string found_or_missing(const TaskRow& row, const std::string& data_folder, std::string_view file) {
  std::string path = find_task_file(row, data_folder, file);
  if (!path.empty()) return path;
  const std::string here = (fs::path(data_folder) / row.folders.front() / file).string();
  throw Error(std::string(row.name) + " needs " + here + " (plain, .gz or .xz), and it is missing: laconic data get " +
              row.name + " --to " + data_folder + " fetches it; --data or LACONIC_DATA name another folder");
}

}  // namespace

void wrong_file(const std::string& path, std::uint64_t offset, const std::string& expected, const std::string& found) {
  throw Error(path + ", offset " + std::to_string(offset) + ": expected " + expected + ", found " + found +
              "; remove the file and get it again (laconic data get)");
}

namespace {

[[noreturn]] void too_large(const std::string& path, std::uint64_t most, std::uint64_t bytes) {
  wrong_file(path, most, "the end, as no file of this kind is larger", std::to_string(bytes) + " bytes");
}

/// Bytes that a packed file may have: what cannot be made smaller grows a little.
std::uint64_t most_packed(std::uint64_t most) { return most + most / 8 + (std::uint64_t{64} << 10); }

}  // namespace

std::vector<std::uint8_t> read_bytes(const std::string& path, std::uint64_t most) {
  std::ifstream input(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = input ? static_cast<std::streamoff>(input.tellg()) : -1;
  if (size < 0) throw Error("cannot read " + path + ": " + std::strerror(errno));
  if (static_cast<std::uint64_t>(size) > most) too_large(path, most, static_cast<std::uint64_t>(size));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  input.seekg(0);
  input.read(reinterpret_cast<char*>(bytes.data()), size);
  if (input.gcount() != size) {
    throw Error("cannot read " + path + ": it ends at offset " + std::to_string(input.gcount()) + " of " +
                std::to_string(size));
  }
  return bytes;
}

DataFile::DataFile(const TaskRow& row, const std::string& data_folder, std::string_view file, std::uint64_t most)
    : path_(found_or_missing(row, data_folder, file)) {
  const bool packed = path_.ends_with(".gz") || path_.ends_with(".xz");
  bytes_ = read_bytes(path_, packed ? most_packed(most) : most);
  if (path_.ends_with(".gz")) bytes_ = from_gz(path_, bytes_, most);
  if (path_.ends_with(".xz")) bytes_ = from_xz(path_, bytes_, most);
  if (bytes_.size() > most) too_large(path_, most, bytes_.size());
}

std::uint32_t DataFile::number(std::uint64_t offset) const {
  std::uint32_t value = 0;
  for (std::uint64_t i = 0; i < 4; ++i) value = value << 8 | bytes_[offset + i];
  return value;
}

void DataFile::require_size(std::uint64_t bytes, const std::string& holds) const {
  if (size() == bytes) return;
  wrong(std::min(size(), bytes), std::to_string(bytes) + " bytes, " + holds,
        std::to_string(size()) + (size() < bytes ? ": the file is cut off" : ": the file is too long"));
}

void FirstBytes::add(const DataFile& file, std::uint64_t header) {
  constexpr std::uint64_t kMany = std::uint64_t{64} << 10;  // some dozens of images
  const auto rest = file.bytes().subspan(std::min(header, file.size()));
  const auto bytes = rest.first(std::min<std::size_t>(rest.size(), kMany));
  for (const Seen& other : seen_) {
    if (!std::equal(bytes.begin(), bytes.end(), other.bytes.begin(), other.bytes.end())) continue;
    file.wrong(header, "other contents than those of " + other.path,
               "the same: one of the two lies under the other's name");
  }
  seen_.push_back({file.path(), {bytes.begin(), bytes.end()}});
}

}  // namespace laconic
