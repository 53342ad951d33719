#include "experiment/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "laconic/error.h"

namespace laconic {
namespace {

constexpr std::string_view kTemporary = ".tmp";  ///< then the process

[[noreturn]] void refuse(const std::string& path, const std::string& temporary) {
  const std::string why = std::strerror(errno);
  ::unlink(temporary.c_str());
  throw Error("cannot write " + path + ": " + why);
}

bool write_all(int file, const std::byte* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(file, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    data += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

void write_through(const std::string& path, View<const std::byte> bytes) {
  // /dev/stdout may be a file that has something in it already.
  const bool stream = path.starts_with("/dev/") || path.starts_with("/proc/");
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | (stream ? O_APPEND : O_TRUNC));
  bool written = file >= 0 && write_all(file, bytes.data(), bytes.size());
  const int reason = errno;
  if (file >= 0) written = ::close(file) == 0 && written;
  if (!written) throw Error("cannot write " + path + ": " + std::strerror(reason));
}

}  // namespace

bool is_written_through(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status target = fs::status(path, ignored);
  if (!fs::exists(target) || fs::is_directory(target)) return false;
  return !fs::is_regular_file(target) || fs::is_symlink(path, ignored);
}

std::string temporary_beside(const std::string& path) {
  return path + std::string(kTemporary) + std::to_string(::getpid());
}

void write_whole_file(const std::string& path, View<const std::byte> bytes) {
  if (is_written_through(path)) {
    write_through(path, bytes);
    return;
  }
  const std::string temporary = temporary_beside(path);
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) refuse(path, temporary);
  const bool written = write_all(file, bytes.data(), bytes.size()) && ::fsync(file) == 0;
  const int reason = errno;
  if (::close(file) != 0 || !written) {
    if (!written) errno = reason;
    refuse(path, temporary);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) refuse(path, temporary);
  sync_folder(std::filesystem::path(path).parent_path().string());
}

void sync_folder(const std::string& path) {
  const int folder = ::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);
  ::close(folder);
}

void remove_cut_writes(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string start = fs::path(path).filename().string() + std::string(kTemporary);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(path).parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start) || name.size() == start.size()) continue;
    if (name.find_first_not_of("0123456789", start.size()) == std::string::npos) fs::remove_all(entry.path(), ignored);
  }
}

void write_whole_file(const std::string& path, const std::string& text) {
  write_whole_file(path, as_bytes(View<const char>(text.data(), text.size())));
}

}  // namespace laconic
