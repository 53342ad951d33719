#pragma once

#include "laconic/coefficients.h"
#include "methods/local_step.h"
#include "methods/settings.h"

namespace laconic {

/// The numbers of a compressed update (updates.cpp) that do not depend on its parts.
struct UpdateOptions {
  LocalStepOptions local{};                      ///< λ and H
  float decay = 1.0F;                            ///< ρ
  Coefficients outer{.learning_rate = 1.0F};     ///< α, and μ as a momentum of Nesterov's
  bool subtracts_error = false;                  ///< from the point that is read out
  bool diagnose = false;
  bool tells_rounds = false;
};

UpdateOptions update_options(const Settings& settings);

/// The optimizer of the local steps. The method's own momentum and weight_decay come first; the optimizer's are used if
/// they were not given. Throws InvalidConfig if they are out of range, or if a host's optimizer has its own.
OptimizerOptions local_optimizer(const Settings& settings, OptimizerOptions optimizer);

}  // namespace laconic
