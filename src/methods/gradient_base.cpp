#include "methods/gradient_base.h"

#include "base/check.h"
#include "laconic/error.h"

namespace laconic {

StepReport GradientBase::reduce(StepKey key, GradientView gradient) {
  if (!core().registered()) {
    const Tensor whole{"gradient", gradient.size()};
    register_tensors({&whole, 1});
  }
  require_size("gradient", gradient.size(), parameters());
  open_step().require_none();
  begin_exchange(key);
  pipeline().add(gradient);
  pipeline().finish();
  return conclude();
}

void GradientBase::begin(StepKey key) {
  open_step().require_none();
  core().require_registered("begin()");
  settled_ = false;
  begin_exchange(key);
  open_step().open(tensors().size());
}

void GradientBase::begin_exchange(StepKey key) {
  key_ = key;
  key_.rank = static_cast<std::uint32_t>(rank());  // whatever the caller says: ranks that draw alike round alike
  report_ = {};
  pipeline().begin(waits_for_all(), report_);
  on_begin();
}

bool GradientBase::settle() {
  open_step().require_open("settle()");
  open_step().require_all(tensors());
  if (!settled_) {
    try {
      pipeline().finish();
    } catch (...) {
      open_step().close();  // a failure leaves no step behind
      throw;
    }
    settled_ = true;
  }
  return pipeline().status().nonfinite == 0;
}

StepReport GradientBase::finish() {
  open_step().require_open("finish()");
  if (!settled_) settle();
  open_step().close();
  return conclude();
}

StepReport GradientBase::abandon() {
  if (!open_step().is_open() || !settled_) {
    throw InvalidConfig(name() + ": abandon() before settle(): settle the step first");
  }
  open_step().close();
  return abandon_exchange();
}

StepReport GradientBase::abandon_exchange() {
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
  if (policy() == NonfinitePolicy::skip) return drop();
  roll_back();
  core().refuse_nonfinite(status, key_.step);
}

StepReport GradientBase::drop() {
  roll_back();
  pipeline().clear_gradients();
  ++core().skipped_steps;
  report_.skipped = true;
  return report_;
}

}  // namespace laconic
