#include "output_file.h"

#include "base/whole_file.h"

namespace laconic::tools {

void require_writable(const std::string& path) {
  if (!path.empty()) laconic::require_writable(path);
}

void write_file(const std::string& path, const std::string& text) {
  if (!path.empty()) write_whole_file(path, text);
}

}  // namespace laconic::tools
