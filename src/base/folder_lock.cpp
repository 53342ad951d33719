#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "laconic/error.h"

namespace laconic {
namespace {

std::string own_name() {
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return std::to_string(::getpid()) + " on " + host + "\n";
}

/// "1234 on host", or what stands for it in a file that its owner has not written yet.
std::string name_in(int file) {
  char text[320] = "";
  const ssize_t length = ::pread(file, text, sizeof text - 1, 0);
  std::string name(text, length > 0 ? static_cast<std::size_t>(length) : 0);
  name.resize(std::min(name.find('\n'), name.size()));
  for (char& character : name) character = character < ' ' || character > '~' ? '?' : character;
  return name.empty() ? "unknown" : name;
}

/// Whether the name still leads to the open file: its last owner may have removed it in between.
bool is_at(const std::string& path, int file) {
  struct stat opened{};
  struct stat named{};
  return ::fstat(file, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) : path_(folder + "/.laconic.lock") {
  for (;;) {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file_ < 0) throw Error("cannot write " + path_ + ": " + std::strerror(errno));
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) break;  // no locks here
      const std::string owner = name_in(file_);
      ::close(file_);
      throw Error("another process writes into " + folder + " (process " + owner +
                  "): wait for its end, or name another folder");
    }
    if (is_at(path_, file_)) break;
    ::close(file_);
  }
  const std::string name = own_name();
  // Only for a message: a disk that is full fails where it matters.
  if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, name.data(), name.size(), 0) < 0) errno = 0;
}

FolderLock::~FolderLock() {
  ::unlink(path_.c_str());  // before the lock ends, so that it is not another's
  ::close(file_);
}

}  // namespace laconic
