#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "laconic/view.h"

namespace laconic {

/// Neighbouring scopes, by their numbers.
struct ScopeSpan {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// How an index space is cut into scopes. Both ends of an exchange know it, so it is not sent. By default everything is
/// one scope.
struct ScopeCuts {
  std::uint32_t each = 0xFFFF'FFFF;          ///< entries of every scope but the last, unless `starts` has some
  std::span<const std::uint32_t> starts{};   ///< first index of each scope, ascending from 0, in CPU memory
  View<const std::uint32_t> device_starts{};  ///< the same in the memory of a place on a device

  std::uint64_t number_of(std::uint64_t index) const {
    if (starts.empty()) return index / each;
    return static_cast<std::uint64_t>(std::upper_bound(starts.begin(), starts.end(), index) - starts.begin()) - 1;
  }
  /// The first index behind a scope; the last scope is open.
  std::uint64_t end_of(std::uint64_t number) const {
    if (starts.empty()) return (number + 1) * each;
    return number + 1 < starts.size() ? starts[number + 1] : std::uint64_t{1} << 32;
  }
  /// The scopes of the indices [first, first + size).
  ScopeSpan of(std::uint64_t first, std::uint64_t size) const {
    if (size == 0) return {};
    const std::uint64_t number = number_of(first);
    return {number, number_of(first + size - 1) - number + 1};
  }
};

}  // namespace laconic
