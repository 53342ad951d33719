#pragma once

#include <cstdint>

namespace laconic {

/// Entries of a view among which some are selected on their own, such as those of one tensor.
struct Scope {
  std::uint32_t tensor = 0;  ///< the first one
  std::uint64_t offset = 0;  ///< in the view
  std::uint64_t size = 0;
  std::uint64_t first = 0;  ///< where its selected entries begin in the list of all scopes
  std::uint64_t count = 0;  ///< how many are selected
};

}  // namespace laconic
