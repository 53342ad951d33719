#include "bench/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace laconic::bench {

Progress::Progress(bool show) : show_(show && isatty(STDERR_FILENO) != 0) {}

void Progress::say(const std::string& text) const {
  if (show_) std::fprintf(stderr, "\r\033[K%s", text.c_str());
}

bool matches(std::string_view name, std::string_view filter) {
  if (filter.empty()) return true;
  for (std::size_t begin = 0; begin <= filter.size();) {
    const std::size_t end = std::min(filter.find(',', begin), filter.size());
    const std::string_view word = filter.substr(begin, end - begin);
    if (!word.empty() && name.find(word) != std::string_view::npos) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace laconic::bench
