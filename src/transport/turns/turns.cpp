#include "transport/turns/turns.h"

namespace laconic::turns {
namespace {

constexpr std::size_t kStackBytes = 512 * 1024;  // untouched pages cost nothing

}  // namespace

thread_local Turns* Turns::running_ = nullptr;

void Turns::run(const std::function<void(std::size_t)>& body) {
  body_ = &body;
  running_ = this;
  for (Fiber& fiber : fibers_) prepare(fiber);
  current_ = 0;
  alive_ = fibers_.size();
  swapcontext(&home_, &fibers_[0].context);
  running_ = nullptr;
}

void Turns::next() {
  const std::size_t from = current_;
  current_ = following(from);
  if (current_ != from) swapcontext(&fibers_[from].context, &fibers_[current_].context);
}

void Turns::prepare(Fiber& fiber) {
  fiber.stack.reset(new std::byte[kStackBytes]);  // not zeroed
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, enter, 0);
}

void Turns::enter() {
  Turns& turns = *running_;
  const std::size_t self = turns.current_;
  (*turns.body_)(self);
  turns.fibers_[self].ended = true;
  if (--turns.alive_ == 0) setcontext(&turns.home_);
  turns.current_ = turns.following(self);
  setcontext(&turns.fibers_[turns.current_].context);
}

std::size_t Turns::following(std::size_t from) const {
  std::size_t candidate = (from + 1) % fibers_.size();
  while (fibers_[candidate].ended && candidate != from) candidate = (candidate + 1) % fibers_.size();
  return candidate;
}

}  // namespace laconic::turns
