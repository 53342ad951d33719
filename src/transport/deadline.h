#pragma once

#include <algorithm>
#include <chrono>

#include "laconic/communicator.h"

namespace laconic {

using Clock = std::chrono::steady_clock;

/// Now plus the timeout. A timeout longer than a year counts as one year, so that the largest duration does not
/// overflow.
inline Clock::time_point deadline_after(Milliseconds timeout) {
  constexpr Milliseconds kYear = std::chrono::hours(24 * 365);
  return Clock::now() + std::clamp(timeout, Milliseconds(0), kYear);
}

}  // namespace laconic
