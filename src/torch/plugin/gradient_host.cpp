#include "torch/plugin/gradient_host.h"

#include <chrono>
#include <string>
#include <utility>

#include "base/memory.h"
#include "base/no_thread.h"
#include "exchange/exchange.h"
#include "laconic/error.h"
#include "laconic/nonfinite.h"

namespace laconic::plugin {
namespace {

/// How long exchanges in flight may lie while no delivery comes.
constexpr std::chrono::microseconds kPollInterval{200};

constexpr const char* kWhat = "a hook";

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return error_text(known);
  } catch (...) {
    return "an unknown error";
  }
}

}  // namespace

GradientHost::GradientHost(std::shared_ptr<Communicator> communicator, std::unique_ptr<Place> place,
                           std::vector<Tensor> parameters, std::vector<MethodGroup> groups,
                           const MethodSetOptions& options, bool scaled, std::shared_ptr<Communicator> shards)
    : communicator_(std::move(communicator)),
      shards_(std::move(shards)),
      place_(std::move(place)),
      methods_(std::make_unique<MethodSet>(std::move(parameters), std::move(groups), options, *communicator_, *place_,
                                           shards_.get())),
      neighbours_(methods_->neighbours()),
      scaled_(scaled),
      rank_(communicator_->rank()),
      ranks_(communicator_->size()) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::exception& reason) {
    throw no_thread("the thread of the hook could not be started", "threads= or the ranks per machine", reason);
  }
  try {
    // A rank that has no thread is an error of all; and one that went on and ended would break groups that others are
    // still connecting.
    communicator_->barrier().wait();
  } catch (...) {
    close();
    throw;
  }
}

GradientHost::~GradientHost() { close(); }

void GradientHost::close() {
  process_.require("close()", kWhat);
  const std::lock_guard once(closing_);
  if (!thread_.joinable()) return;
  bool in_step = false;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    in_step = !open_deliveries_.empty() || !deliveries_.empty();
    if (!failure_) failure_ = std::make_exception_ptr(InvalidConfig("the hook was closed: make a new one"));
  }
  changed_.notify_all();
  // The thread may wait for ranks that do not come.
  if (in_step) tell_others("it ended its hook in the middle of a step");
  thread_.join();
  methods_.reset();
  communicator_.reset();
  shards_.reset();
}

void GradientHost::tell_others(const std::string& reason) {
  communicator_->fail(reason);
  if (shards_) shards_->fail(reason);
}

void GradientHost::submit(std::unique_ptr<Delivery> delivery) {
  if (!process_.is_this()) return delivery->fail(refusal_in_fork());
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex_);
    failure = failure_;
    if (!failure) deliveries_.push_back(std::move(delivery));
  }
  if (failure) {
    delivery->fail(failure);
  } else {
    changed_.notify_all();
  }
}

std::exception_ptr GradientHost::refusal_in_fork() const {
  try {
    process_.require("a step", kWhat);
  } catch (...) {
    return std::current_exception();
  }
  return {};
}

/// True: there is something to do but polling.
bool GradientHost::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto ready = [&] { return stopping_ || !deliveries_.empty() || !tasks_.empty(); };
  if (!failure_ && methods_->streams()) return changed_.wait_for(lock, kPollInterval, ready);
  changed_.wait(lock, ready);
  return true;
}

void GradientHost::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const bool work = wait_for_work(lock);
    if (stopping_) break;
    if (!tasks_.empty()) {
      Task* task = tasks_.front();
      tasks_.pop_front();
      (*task)();  // with the lock, which its owner waits on; submitters wait for this short while
      changed_.notify_all();
      continue;
    }
    if (work) {
      open_deliveries_.push_back(std::move(deliveries_.front()));
      deliveries_.pop_front();
    }
    lock.unlock();
    try {
      const Stopwatch busy(metrics_.busy_seconds);
      if (work) {
        take(*open_deliveries_.back());
      } else {
        const Stopwatch inside(metrics_.method_seconds);
        methods_->poll();
      }
    } catch (const NonfiniteValue&) {
      drop_step(std::current_exception());
    } catch (const OtherParameters&) {
      drop_step(std::current_exception());
    } catch (...) {
      fail(std::current_exception());
    }
    lock.lock();
  }
  for (Task* task : tasks_) (*task)();  // throws why it ended to whoever waits
  tasks_.clear();
  changed_.notify_all();
  const auto ended = std::make_exception_ptr(Error("the hook ended before the step did"));
  for (auto& each : open_deliveries_) each->fail(ended);
  for (auto& each : deliveries_) each->fail(ended);
  open_deliveries_.clear();
  deliveries_.clear();
}

void GradientHost::take(Delivery& newest) {
  if (!methods_->is_open()) methods_->begin();
  std::span<const TensorPart> parts;
  {
    const Stopwatch converting(metrics_.convert_seconds);
    newest.note_carried(methods_->carried());
    parts = newest.open();
  }
  {
    const Stopwatch inside(metrics_.method_seconds);
    methods_->add(parts);
  }
  for (const std::uint32_t each : newest.unused()) methods_->mark_unused(each);
  for (const std::uint32_t each : newest.late()) methods_->mark_late(each);
  if (newest.abandons()) methods_->mark_abandoned();
  if (methods_->complete()) {
    finish();
  } else if (newest.last()) {
    throw InvalidConfig(
        "a step ended before every parameter had its gradient: the model's parameters changed after the "
        "hook was made; make a new one, last of all");
  }
}

void GradientHost::finish() {
  bool counted = false;
  {
    const Stopwatch inside(metrics_.method_seconds);
    counted = methods_->finish(!scaled_);
  }
  const Outcome dropped = methods_->abandoned() ? Outcome::abandoned : Outcome::skipped;
  const Outcome outcome = counted ? Outcome::counted : dropped;
  std::vector<std::unique_ptr<Delivery>> ended = take_open();
  const Stopwatch converting(metrics_.convert_seconds);
  try {
    while (!ended.empty()) {
      ended.front()->close(outcome);
      ended.erase(ended.begin());
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    open_deliveries_.swap(ended);  // where the error finds them: whoever waits for them must be told
    throw;
  }
}

/// Ends the step before its deliveries are told: whoever waits for one may end the host as soon as it is closed.
std::vector<std::unique_ptr<Delivery>> GradientHost::take_open() {
  const std::lock_guard lock(mutex_);
  return std::exchange(open_deliveries_, {});
}

/// All ranks met the error and dropped the step; the next one may go on.
void GradientHost::drop_step(std::exception_ptr error) {
  for (auto& each : take_open()) each->fail(error);
}

void GradientHost::fail(std::exception_ptr error) {
  tell_others(text_of(error));
  std::deque<std::unique_ptr<Delivery>> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) failure_ = error;
    waiting.swap(deliveries_);
  }
  for (auto& each : take_open()) each->fail(error);
  for (auto& each : waiting) each->fail(error);
}

/// Runs the task on the thread, and throws here what it throws.
void GradientHost::on_thread(const char* call, const Task& task) {
  process_.require(call, kWhat);
  std::exception_ptr error;
  bool done = false;
  Task wrapped = [&] {
    try {
      if (failure_) std::rethrow_exception(failure_);
      task();
    } catch (...) {
      error = std::current_exception();
    }
    done = true;
  };
  std::unique_lock lock(mutex_);
  if (stopping_) std::rethrow_exception(failure_);
  tasks_.push_back(&wrapped);
  changed_.notify_all();
  changed_.wait(lock, [&] { return done; });
  if (error) std::rethrow_exception(error);
}

HostMetrics GradientHost::metrics() {
  HostMetrics found;
  on_thread("metrics()", [&] {
    if (!methods_->is_open()) metrics_.residual_norm = methods_->residual_norm();
    metrics_.last = methods_->last();
    metrics_.total = methods_->total();
    metrics_.steps = methods_->step();
    metrics_.skipped = methods_->skipped();
    found = metrics_;
  });
  return found;
}

State GradientHost::save() {
  State state;
  on_thread("state_dict()", [&] { state = methods_->save(); });
  return state;
}

void GradientHost::load(View<const std::byte> saved, const std::string& refusal) {
  on_thread("load_state_dict()", [&] { methods_->load(saved, refusal); });
}

}  // namespace laconic::plugin
