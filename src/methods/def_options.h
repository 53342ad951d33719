#pragma once

#include "exchange/dense_sum.h"
#include "methods/settings.h"

namespace laconic {

/// What tells ef-rbgs, def and def-a apart, and how their blocks travel.
struct DefOptions {
  float lambda = 0.0F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
  bool nesterov = false;
  std::uint32_t local_steps = 1;
  bool subtracts_error = false;  ///< of the point read out: DEF
  bool diagnose = false;
  DenseSumOptions sum{};
};

/// All but subtracts_error, which the maker knows. The method's own settings count; the optimizer's stand in for those
/// that were not given. Throws InvalidConfig for another optimizer than SGD, for nesterov without momentum, and for a
/// value out of range.
DefOptions def_options(const Settings& settings, const OptimizerOptions& optimizer);

}  // namespace laconic
