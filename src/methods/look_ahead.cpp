#include "methods/look_ahead.h"

#include "base/scratch_status.h"
#include "kernels/elementwise/elementwise.h"

namespace laconic {

Status LookAhead::all_finite(View<const float> gradient, StepReport& report) {
  const Status own{.nonfinite = is_finite(core_.place(), gradient) ? 0U : 1U};
  const auto mine = static_cast<float>(own.nonfinite);
  const ScratchStatus status(core_.place());
  finite_.start(View<const float>(&mine, 1), status.view());
  finite_.finish();
  report.traffic += finite_.traffic();
  Status all;
  for (int rank = core_.ranks() - 1; rank >= 0; --rank) {
    if (finite_.of(rank)[0] == 0.0F) continue;
    all.nonfinite = 1;
    all.nonfinite_rank = static_cast<std::uint32_t>(rank) + 1;
  }
  core_.locate_nonfinite(gradient, own);
  return all;
}

void LookAhead::refuse_model(MethodCore& core, const Status& status, std::uint32_t step) {
  core.refuse_nonfinite(status, step, "model that the host's optimizer made",
                        "lower the learning rate or clip gradients (the host's step cannot be taken back)");
}

}  // namespace laconic
