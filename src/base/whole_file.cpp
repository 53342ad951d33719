#include "base/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <string_view>
#include <utility>

namespace laconic {
namespace {

constexpr std::string_view kTemporary = ".tmp";  ///< then kRandomDigits, of earlier versions the process
constexpr std::size_t kRandomDigits = 16;
constexpr std::string_view kDigits = "0123456789abcdef";

[[noreturn]] void refuse(const std::string& path, int reason, const char* remedy = "") {
  throw FileError("cannot write " + path + ": " + std::strerror(reason) + remedy, path, reason);
}

/// A name that nobody can foresee.
std::string name_beside(const std::string& path) {
  std::string name = path + std::string(kTemporary);
  std::random_device random;
  for (std::size_t i = 0; i < kRandomDigits; ++i) name += kDigits[random() % kDigits.size()];
  return name;
}

bool is_temporary(std::string_view ending) {
  const std::string_view digits = ending.size() == kRandomDigits ? kDigits : kDigits.substr(0, 10);
  return !ending.empty() && ending.find_first_not_of(digits) == std::string_view::npos;
}

/// A file that was not there, nor a link of its name. Gone at the end unless it was renamed onto `path`.
class FileBeside {
 public:
  explicit FileBeside(const std::string& path) : path_(path), name_(name_beside(path)) {
    file_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file_ < 0) refuse(path_, errno, "; name a file in a folder that is there and where you may write");
  }
  ~FileBeside() {
    if (file_ >= 0) ::close(file_);
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  FileBeside(const FileBeside&) = delete;
  FileBeside& operator=(const FileBeside&) = delete;

  int file() const { return file_; }

  void rename_onto_path() {
    if (::close(std::exchange(file_, -1)) != 0) refuse(path_, errno);
    if (std::rename(name_.c_str(), path_.c_str()) != 0) refuse(path_, errno);
    name_.clear();
  }

 private:
  std::string path_;
  std::string name_;
  int file_ = -1;
};

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
  if (file < 0) refuse(path, errno);
  const int failed = write_all(file, bytes.data(), bytes.size()) ? 0 : errno;
  const int closed = ::close(file) == 0 ? 0 : errno;
  if (failed != 0 || closed != 0) refuse(path, failed != 0 ? failed : closed);
}

}  // namespace

bool is_written_through(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status target = fs::status(path, ignored);
  if (!fs::exists(target) || fs::is_directory(target)) return false;
  return !fs::is_regular_file(target) || fs::is_symlink(path, ignored);
}

void require_room_beside(const std::string& path) { const FileBeside removed(path); }

void require_writable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw Error("cannot write " + path + ": it is a folder; name a file in it");
  }
  if (is_written_through(path)) {
    if (::access(path.c_str(), W_OK) != 0) throw Error("cannot write " + path + ": permission denied");
    return;
  }
  require_room_beside(path);
}

std::string make_folder_beside(const std::string& path) {
  std::string name = name_beside(path);
  if (::mkdir(name.c_str(), 0700) != 0) refuse(path, errno);
  return name;
}

void write_whole_file(const std::string& path, View<const std::byte> bytes) {
  if (is_written_through(path)) {
    write_through(path, bytes);
    return;
  }
  FileBeside beside(path);
  if (!write_all(beside.file(), bytes.data(), bytes.size()) || ::fsync(beside.file()) != 0) refuse(path, errno);
  beside.rename_onto_path();
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
    if (!name.starts_with(start)) continue;
    if (is_temporary(std::string_view(name).substr(start.size()))) fs::remove_all(entry.path(), ignored);
  }
}

void write_whole_file(const std::string& path, const std::string& text) {
  write_whole_file(path, as_bytes(View<const char>(text.data(), text.size())));
}

}  // namespace laconic
