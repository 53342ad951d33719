#pragma once

#include <cstdint>

namespace laconic {

/// Names one step of one worker. Every random draw of the step is a function of it, so a resumed run draws the same.
struct StepKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t rank = 0;  ///< set by the method, which knows its rank: a host may leave it out
};

}  // namespace laconic
