#pragma once

#include <cstdint>
#include <span>

#include "base/check.h"

namespace laconic {

/// Entries of a view among which some are selected on their own, such as those of one tensor.
struct Scope {
  std::uint32_t tensor = 0;  ///< in which it begins
  std::uint64_t offset = 0;  ///< in the view
  std::uint64_t size = 0;
  std::uint64_t first = 0;  ///< where its selected entries begin in the list of all scopes
  std::uint64_t count = 0;  ///< how many are selected
};

/// Throws BrokenInvariant unless the scopes ascend within `size` entries and their parts of the list follow each other.
/// Returns the length of the list.
inline std::uint64_t require_in_order(std::span<const Scope> scopes, std::uint64_t size) {
  std::uint64_t end = 0;
  std::uint64_t selected = 0;
  for (const Scope& scope : scopes) {
    LACONIC_CHECK(scope.offset >= end);
    LACONIC_CHECK(scope.offset <= size);
    LACONIC_CHECK(scope.size <= size - scope.offset);
    LACONIC_CHECK(scope.count <= scope.size);
    LACONIC_CHECK(scope.first == selected);
    end = scope.offset + scope.size;
    selected += scope.count;
  }
  return selected;
}

}  // namespace laconic
