#pragma once

namespace laconic {

/// How SGD moves one tensor in one step.
struct Coefficients {
  float learning_rate = 0.0F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
  bool nesterov = false;  ///< has an effect only if momentum is above 0
  bool operator==(const Coefficients&) const = default;
};

}  // namespace laconic
