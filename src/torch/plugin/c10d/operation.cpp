#include "torch/plugin/c10d/operation.h"

#include <c10/core/StreamGuard.h>

#include <mutex>
#include <thread>

#include "laconic/error.h"
#include "transport/failure.h"

namespace laconic::plugin {
namespace {

/// Healthy collectives end sooner, and nobody asks the store.
constexpr Milliseconds kQuietTime{50};
/// Who waits for less is not made to wait for a roll call too.
constexpr Milliseconds kShortWait{1000};

/// How long to sleep at the engine's own bell before looking around: a bell that does not ring costs an exception.
constexpr Milliseconds kSleep{250};

/// An engine's error without its trace of the stack.
std::string engine_text_of(const std::exception_ptr& error) {
  std::string text = "unknown error";
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& known) {
    text = known.what_without_backtrace();
  } catch (const std::exception& known) {
    text = known.what();
  } catch (...) {
    return text;
  }
  return text.substr(0, text.find('\n'));
}

/// What the engine may still use. Kept, with the engine, until it has done with it, for the rest of the process if need
/// be: an engine's end waits for its collectives.
struct Abandoned {
  c10::intrusive_ptr<c10d::Backend> backend;
  c10::intrusive_ptr<c10d::Work> work;
  std::vector<at::Tensor> tensors;
};

void keep_until_done(Abandoned kept) {
  static std::mutex mutex;
  static auto& all = *new std::vector<Abandoned>;
  std::lock_guard lock(mutex);
  std::erase_if(all, [](const Abandoned& one) { return one.work->isCompleted(); });
  all.push_back(std::move(kept));
}

}  // namespace

std::string C10dOperation::name() const { return describe(call_) + " (operation " + std::to_string(sequence_) + ")"; }

void C10dOperation::start(const Call& call, std::uint64_t sequence, Milliseconds timeout) {
  call_ = call;
  send_ranges_.assign(call.send_ranges.begin(), call.send_ranges.end());
  receive_ranges_.assign(call.receive_ranges.begin(), call.receive_ranges.end());
  call_.send_ranges = {};
  call_.receive_ranges = {};
  sequence_ = sequence;
  patience_ = timeout;
  timeout_.clear();
  broken_ = false;
  own_range_ = {};
  drop_shared();
  started_ = Clock::now();
  if (bypasses_engine()) return deliver_alone();
  const c10::OptionalStreamGuard ours(channel_.stream);
  pack();
  try {
    post(timeout);
  } catch (const std::exception&) {
    throw_engine_error(std::current_exception());
  }
}

bool C10dOperation::finish() {
  if (work_ == nullptr) return true;
  if (broken_) return false;
  if (!work_->isCompleted()) return false;
  if (const std::exception_ptr error = work_->exception()) {
    broken_ = true;
    throw_engine_error(error);
  }
  const c10::OptionalStreamGuard ours(channel_.stream);
  if (channel_.stream) work_->synchronize();  // the stream waits for the engine's; the copies follow
  deliver();
  if (on_device()) channel_.stream->synchronize();
  work_.reset();
  drop_shared();
  return true;
}

void C10dOperation::drop_shared() { shared_sent_ = shared_received_ = at::Tensor(); }

/// An engine sees only that a connection has ended. The rank at its other end may have told why, or answers no more.
void C10dOperation::throw_engine_error(const std::exception_ptr& error) {
  const std::string text =
      name() + " broke on rank " + std::to_string(channel_.watch->rank()) + ": " + engine_text_of(error);
  channel_.watch->lose(text);
  channel_.watch->throw_if_failed(name());
  throw TransportError(text + "; a rank has ended or is out of reach: see the other ranks' output");
}

void C10dOperation::look_for_failure() {
  if (channel_.watch->failed()) channel_.watch->throw_if_failed(name());
  if (Clock::now() - started_ > kQuietTime) channel_.watch->ask();
}

bool C10dOperation::test() {
  if (finish()) return true;
  look_for_failure();
  return false;
}

/// Sleeps until the engine is done, or for a while. Polls where the engine's wait is about a stream, not about the end.
void C10dOperation::pause(Milliseconds longest) {
  if (channel_.stream) return std::this_thread::sleep_for(std::chrono::microseconds(50));
  try {
    work_->wait(std::clamp(longest, Milliseconds(1), Clock::now() - started_ < kQuietTime ? kQuietTime : kSleep));
  } catch (...) {
    // Not yet, or it has failed: finish() sees which.
  }
}

void C10dOperation::wait(Milliseconds timeout) {
  const auto deadline = deadline_after(timeout);
  for (;;) {
    if (finish()) return;
    look_for_failure();
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
    if (left < Milliseconds(0)) break;
    pause(left);
  }
  throw_timeout(timeout);
}

void C10dOperation::throw_timeout(Milliseconds timeout) {
  const std::vector<int> silent = timeout < kShortWait ? std::vector<int>() : channel_.watch->silent_ranks();
  channel_.watch->throw_if_failed(name());
  timeout_ = name() + " did not end within " + std::to_string(timeout.count()) + " ms on rank " +
             std::to_string(channel_.watch->rank()) + ": " +
             (silent.empty() ? "a rank has vanished, hangs, or computes for longer"
                             : "no answer from " + ranks_text(silent) + ", stopped, vanished or computing for longer") +
             "; see what the others do, or raise the timeout (timeout= in Python, set_timeout in C++)";
  throw WaitTimeout(timeout_, silent);
}

void C10dOperation::abandon() {
  if (on_device()) channel_.stream->synchronize();  // copies of what was to be sent; never the engine's own work
  keep_until_done({channel_.backend,
                   std::move(work_),
                   {sent_, received_, device_sent_, device_received_, shared_sent_, shared_received_}});
  work_.reset();
  sent_ = received_ = device_sent_ = device_received_ = at::Tensor();
  drop_shared();
}

void C10dOperation::release() noexcept {
  try {
    if (work_ != nullptr && timeout_.empty() && !broken_ && !channel_.watch->failed()) wait(patience_);
  } catch (...) {
    // A rank has failed or does not come: withdrawn below.
  }
  try {
    if (work_ != nullptr) {
      channel_.watch->give_up(timeout_.empty() ? "it withdrew from " + name() : timeout_);
      abandon();
    }
  } catch (...) {
    static_cast<void>(work_.release());  // no memory to keep it orderly
  }
  pool_.give_back(*this);
}

}  // namespace laconic::plugin
