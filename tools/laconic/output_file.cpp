#include "output_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "laconic/error.h"

namespace laconic::tools {
namespace {

namespace fs = std::filesystem;

std::string beside(const std::string& path) { return path + ".tmp" + std::to_string(getpid()); }

}  // namespace

void require_writable(const std::string& path) {
  if (path.empty()) return;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) throw Error("cannot write " + path + ": it is a folder; name a file in it");
  if (!std::ofstream(beside(path)))
    throw Error("cannot write " + path + ": is there such a folder, and may you write there?");
  fs::remove(beside(path), ignored);
}

void write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  const std::string temporary = beside(path);
  std::ofstream output(temporary, std::ios::binary);
  output << text;
  output.close();
  std::error_code failed;
  if (output) fs::rename(temporary, path, failed);
  if (output && !failed) return;
  fs::remove(temporary, failed);
  throw Error("cannot write " + path + ": is the disk full?");
}

}  // namespace laconic::tools
