#pragma once

#include "exchange/gathered_numbers.h"
#include "methods/core.h"

namespace laconic {

/// Tells all ranks whether every rank's gradient is finite, before a host's optimizer sees it: its step cannot be taken
/// back. One number per rank.
class LookAhead {
 public:
  explicit LookAhead(MethodCore& core) : core_(core), finite_(core.communicator(), core.place(), 1) {}

  /// The same on all ranks. Collective.
  Status all_finite(View<const float> gradient, StepReport& report);

  /// For a model that is not finite although all gradients were: throws NonfiniteValue. Collective.
  [[noreturn]] static void refuse_model(MethodCore& core, const Status& status, std::uint32_t step);

 private:
  MethodCore& core_;
  GatheredNumbers finite_;
};

}  // namespace laconic
