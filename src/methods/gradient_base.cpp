#include "methods/gradient_base.h"

#include "base/check.h"
#include "laconic/error.h"

namespace laconic {

StepReport GradientBase::reduce(StepKey key, View<float> gradient) {
  if (!core().registered()) {
    const Tensor whole{"gradient", gradient.size()};
    register_tensors({&whole, 1});
  }
  require_size("gradient", gradient.size(), parameters());
  step_.require_none();
  begin_exchange(key);
  pipeline().add(gradient);
  pipeline().finish();
  return conclude();
}

void GradientBase::begin(StepKey key) {
  step_.require_none();
  core().require_registered("begin()");
  settled_ = false;
  begin_exchange(key);
  step_.open(tensors().size());
}

void GradientBase::begin_exchange(StepKey key) {
  key_ = key;
  key_.rank = static_cast<std::uint32_t>(rank());  // whatever the caller says: ranks that draw alike round alike
  report_ = {};
  pipeline().begin(waits_for_all(), report_);
}

void GradientBase::add(std::span<const TensorPart> parts) {
  step_.require_open("add()");
  step_.take(tensors(), parts);
  try {
    pipeline().add(parts);
  } catch (const TransportError&) {
    step_.close();  // nothing to finish
    throw;
  }
}

bool GradientBase::settle() {
  step_.require_open("settle()");
  step_.require_all(tensors());
  if (!settled_) {
    try {
      pipeline().finish();
    } catch (...) {
      step_.close();  // a failure leaves no step behind
      throw;
    }
    settled_ = true;
  }
  return pipeline().status().nonfinite == 0;
}

StepReport GradientBase::finish() {
  step_.require_open("finish()");
  if (!settled_) settle();
  step_.close();
  return conclude();
}

StepReport GradientBase::abandon() {
  if (!step_.is_open() || !settled_) {
    throw InvalidConfig(name() + ": abandon() before settle(): settle the step first");
  }
  step_.close();
  mark_running();
  return drop();
}

StepReport GradientBase::conclude() {
  mark_running();
  const Status status = pipeline().status();
  if (status.nonfinite == 0) {
    commit();
    return report_;
  }
  if (policy() == NonfinitePolicy::error) core().refuse_nonfinite(status, key_.step);
  return drop();
}

StepReport GradientBase::drop() {
  pipeline().clear_gradients();
  ++core().skipped_steps;
  report_.skipped = true;
  return report_;
}

}  // namespace laconic
