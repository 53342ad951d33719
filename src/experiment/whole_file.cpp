#include "experiment/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "laconic/error.h"

namespace laconic {
namespace {

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

}  // namespace

void write_whole_file(const std::string& path, View<const std::byte> bytes) {
  const std::string temporary = path + ".tmp" + std::to_string(::getpid());
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) refuse(path, temporary);
  const bool written = write_all(file, bytes.data(), bytes.size()) && ::fsync(file) == 0;
  const int reason = errno;
  if (::close(file) != 0 || !written) {
    if (!written) errno = reason;
    refuse(path, temporary);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) refuse(path, temporary);
}

void write_whole_file(const std::string& path, const std::string& text) {
  write_whole_file(path, as_bytes(View<const char>(text.data(), text.size())));
}

}  // namespace laconic
