#pragma once

namespace laconic {

/// How SGD moves one tensor in one step.
struct Coefficients {
  float learning_rate = 0.0F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
  bool nesterov = false;  ///< counts only with a momentum above 0
  bool operator==(const Coefficients&) const = default;
};

}  // namespace laconic
