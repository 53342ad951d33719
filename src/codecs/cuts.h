#pragma once

#include <cstdint>

#include "base/layout.h"

namespace laconic {

/// InvalidConfig unless begin <= end <= layout.size() and both fall on multiples of `alignment` entries of their tensor
/// (a tensor's end is the next one's beginning). Inside the layer only.
void require_cuts(const Layout& layout, std::uint64_t begin, std::uint64_t end, std::uint64_t alignment);

}  // namespace laconic
