#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace laconic {

/// value + owed, where owing nothing changes no bit: -0 + 0 would be +0, and full selection on one worker is plain SGD
/// bit for bit.
inline float add_owed(float value, float owed) {
  const float sum = value + owed;
  return owed == 0.0F ? value : sum;
}

/// Watches values that a loop has in hand anyway for NaN and Inf, without a branch.
class FiniteWatch {
 public:
  void see(float value) { largest_ = std::max(largest_, std::bit_cast<std::uint32_t>(value) & 0x7FFF'FFFFU); }
  bool saw_nonfinite() const { return largest_ >= 0x7F80'0000U; }

 private:
  std::uint32_t largest_ = 0;
};

}  // namespace laconic
