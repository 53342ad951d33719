#include "output_file.h"

#include <unistd.h>

#include <filesystem>

#include "experiment/whole_file.h"
#include "laconic/error.h"

namespace laconic::tools {

namespace fs = std::filesystem;

void require_writable(const std::string& path) {
  if (path.empty()) return;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) throw Error("cannot write " + path + ": it is a folder; name a file in it");
  if (is_written_through(path)) {
    if (::access(path.c_str(), W_OK) != 0) throw Error("cannot write " + path + ": you may not");
    return;
  }
  require_room_beside(path);
}

void write_file(const std::string& path, const std::string& text) {
  if (!path.empty()) write_whole_file(path, text);
}

}  // namespace laconic::tools
