#pragma once

#include <bit>
#include <cstdint>

namespace laconic {

/// value + residual, where a residual of zero changes no bit. In plain arithmetic -0 + 0 is +0, but full selection on
/// one worker must equal plain SGD bit for bit.
[[gnu::always_inline]] constexpr float with_residual(float value, float residual) {
  // By masks, because compilers turn a choice between floats into a branch and then do not vectorise the loop.
  const std::uint32_t counts = residual == 0.0F ? 0U : ~0U;
  const float sum = value + residual;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(sum) & counts) |
                              (std::bit_cast<std::uint32_t>(value) & ~counts));
}

/// Checks values that a loop reads anyway for NaN and Inf, without a branch.
class FiniteWatch {
 public:
  void see(float value) {
    const std::uint32_t exponent = std::bit_cast<std::uint32_t>(value) & kExponent;
    found_ |= exponent == kExponent ? ~0U : 0U;  // a comparison that every vector unit has, unlike unsigned max
  }
  bool saw_nonfinite() const { return found_ != 0; }

 private:
  static constexpr std::uint32_t kExponent = 0x7F80'0000U;
  std::uint32_t found_ = 0;
};

}  // namespace laconic
