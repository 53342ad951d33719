#pragma once

#include <cstdint>

namespace laconic {

/// k = max(1, floor(keep·n)), and 0 for an empty view. Throws InvalidConfig unless keep is in (0, 1].
std::uint64_t keep_count(double keep, std::uint64_t n);

/// Length of a random block: max(1, floor(n/ratio)), and 0 for an empty view. Throws InvalidConfig unless ratio >= 1.
std::uint64_t block_count(double ratio, std::uint64_t n);

/// s = 2^(bits-1) - 1, the levels of a sign-and-magnitude field. Throws InvalidConfig unless bits is in 2..16.
std::uint32_t levels_of(int bits);

}  // namespace laconic
