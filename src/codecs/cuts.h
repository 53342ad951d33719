#pragma once

#include <cstdint>

#include "base/layout.h"

namespace laconic {

/// Throws InvalidConfig unless begin <= end <= layout.size() and both are multiples of `alignment` entries from the
/// start of their tensor (a tensor's end is the start of the next one). For this layer only.
void require_cuts(const Layout& layout, std::uint64_t begin, std::uint64_t end, std::uint64_t alignment);

}  // namespace laconic
