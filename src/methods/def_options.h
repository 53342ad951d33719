#pragma once

#include "exchange/dense_sum.h"
#include "methods/settings.h"

namespace laconic {

/// The differences between ef-rbgs, def and def-a, and how their blocks are sent.
struct DefOptions {
  float lambda = 0.0F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
  bool nesterov = false;
  std::uint32_t local_steps = 1;
  bool subtracts_error = false;  ///< from the point that is read out: DEF
  bool diagnose = false;
  DenseSumOptions sum{};
};

/// Sets all options except subtracts_error, which the maker sets. The method's own settings come first; the optimizer's
/// are used for those that were not given. Throws InvalidConfig for an optimizer other than SGD, for nesterov without
/// momentum, and for a value out of range.
DefOptions def_options(const Settings& settings, const OptimizerOptions& optimizer);

}  // namespace laconic
