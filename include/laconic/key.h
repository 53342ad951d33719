#pragma once

#include <cstdint>

namespace laconic {

/// Identifies one step of one worker. Every random draw of the step is a function of it, so a resumed run draws the
/// same numbers.
struct StepKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t rank = 0;  ///< the method sets it, so a host need not
};

}  // namespace laconic
