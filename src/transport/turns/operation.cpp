#include "transport/turns/operation.h"

#include "transport/deadline.h"

namespace laconic::turns {

bool TurnOperation::test() {
  if (operation_->test()) return true;
  turns_.next();
  return operation_->test();
}

void TurnOperation::wait(Milliseconds timeout) {
  if (operation_->test()) return;
  const auto deadline = deadline_after(timeout);
  do {
    turns_.next();
    if (operation_->test()) return;
  } while (Clock::now() < deadline);
  operation_->throw_timeout(timeout);
}

void TurnOperation::release() noexcept {
  operation_->release();
  pool_.give_back(*this);
}

}  // namespace laconic::turns
