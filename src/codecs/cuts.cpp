#include "codecs/cuts.h"

#include <string>

#include "laconic/error.h"

namespace laconic {

void require_cuts(const Layout& layout, std::uint64_t begin, std::uint64_t end, std::uint64_t alignment) {
  if (begin > end || end > layout.size()) {
    throw InvalidConfig("range " + std::to_string(begin) + ".." + std::to_string(end) + " of a layout of " +
                        std::to_string(layout.size()) + " entries: begin <= end <= size must hold");
  }
  for (const std::uint64_t cut : {begin, end}) {
    const std::uint64_t nearest = layout.cut(cut, alignment);
    if (cut == nearest) continue;
    throw InvalidConfig("a range is cut at entry " + std::to_string(cut) + ", which is not a multiple of " +
                        std::to_string(alignment) + " in its tensor: cut at " + std::to_string(nearest) +
                        " (Layout::cut gives it)");
  }
}

}  // namespace laconic
