#include "torch/plugin/c10d/failure_watch.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "transport/failure.h"

namespace laconic::plugin {
namespace {

constexpr const char* kCountKey = "laconic/failures";
constexpr const char* kNoticeKey = "laconic/failure";
constexpr Milliseconds kBetweenLooks{100};
constexpr Milliseconds kNoticeTime{1000};
constexpr Milliseconds kFarewellTime{1000};

/// Stores of earlier versions of torch cannot be cloned.
template <class Store>
c10::intrusive_ptr<Store> cloned(const c10::intrusive_ptr<Store>& store) {
  if constexpr (requires(Store & given) { given.clone(); }) {
    return store->clone();
  } else {
    return store;
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Store> own_connection(const c10::intrusive_ptr<c10d::Store>& store) {
  return cloned<c10d::Store>(store);
}

struct FailureWatch::State {
  State(c10::intrusive_ptr<c10d::Store> store, int own_rank) : given(std::move(store)), rank(own_rank) {}

  const c10::intrusive_ptr<c10d::Store> given;
  const int rank;
  c10::intrusive_ptr<c10d::Store> connected;  ///< the thread's
  std::atomic<bool> failed{false};
  std::atomic<bool> asked{false};

  std::mutex mutex;
  std::condition_variable changed;
  std::string failure;  ///< written once, before `failed`
  std::string notice;   ///< to be posted
  std::uint64_t looks = 0;
  bool started = false;
  bool idle = false;  ///< sleeps until somebody asks
  bool stopping = false;
  bool ended = false;

  /// The first failure counts.
  bool note(std::string text) {
    std::lock_guard lock(mutex);
    if (failed.load()) return false;
    failure = std::move(text);
    failed.store(true, std::memory_order_release);
    return true;
  }

  /// Connected when it is first needed: that may take seconds where names are looked up slowly, and most never need it.
  c10d::Store& store() {
    if (!connected) connected = own_connection(given);
    return *connected;
  }

  void look() {
    if (failed.load() || !store().check({kNoticeKey})) return;
    const std::vector<std::uint8_t> bytes = store().get(kNoticeKey);
    note(std::string(bytes.begin(), bytes.end()));
  }

  void post(const std::string& text) {
    if (store().add(kCountKey, 1) != 1) return;
    store().set(kNoticeKey, std::vector<std::uint8_t>(text.begin(), text.end()));
  }
};

FailureWatch::FailureWatch(c10::intrusive_ptr<c10d::Store> store, int rank)
    : state_(std::make_shared<State>(std::move(store), rank)) {}

FailureWatch::~FailureWatch() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  if (state_->started) state_->changed.wait_for(lock, kFarewellTime, [this] { return state_->ended; });
}

bool FailureWatch::failed() const { return state_->failed.load(std::memory_order_acquire); }

void FailureWatch::throw_if_failed(std::string_view seen_in) const {
  if (failed()) throw PeerFailure(state_->failure + " (seen in " + std::string(seen_in) + ")");
}

void FailureWatch::start_thread() {
  if (state_->started) return;
  state_->started = true;
  std::thread([state = state_] { run(state); }).detach();
}

void FailureWatch::ask() noexcept {
  if (failed() || state_->asked.exchange(true)) return;
  try {
    std::lock_guard lock(state_->mutex);
    start_thread();
    if (state_->idle) state_->changed.notify_all();
  } catch (...) {
    // No thread to be had: the wait's timeout remains.
  }
}

void FailureWatch::look(Milliseconds patience) noexcept {
  try {
    std::unique_lock lock(state_->mutex);
    start_thread();
    const std::uint64_t wanted = state_->looks + 2;  // one may be under way that began before the question
    while (state_->looks < wanted && !failed()) {
      state_->asked.store(true);
      state_->changed.notify_all();
      if (state_->changed.wait_for(lock, patience) == std::cv_status::timeout) return;
    }
  } catch (...) {
    // As above.
  }
}

void FailureWatch::fail(std::string_view reason) noexcept {
  try {
    const std::string rank = "rank " + std::to_string(state_->rank);
    if (!state_->note(rank + ", this one, failed: " + std::string(reason))) return;
    std::unique_lock lock(state_->mutex);
    state_->notice = rank + " failed: " + std::string(reason);
    start_thread();
    state_->changed.notify_all();
    state_->changed.wait_for(lock, kNoticeTime, [this] { return state_->notice.empty(); });
  } catch (...) {
    // Nothing more can be done: the others will see a timeout.
  }
}

void FailureWatch::run(const std::shared_ptr<State>& state) noexcept {
  bool store_answers = true;
  std::unique_lock lock(state->mutex);
  while (!state->stopping || !state->notice.empty()) {
    const std::string notice = state->notice;
    const bool wanted = state->asked.exchange(false);
    lock.unlock();
    try {
      if (store_answers && !notice.empty()) state->post(notice);
      if (store_answers && wanted) state->look();
    } catch (...) {
      store_answers = false;
    }
    lock.lock();
    if (!notice.empty()) state->notice.clear();
    if (wanted) ++state->looks;
    state->changed.notify_all();
    const auto called = [&] { return state->stopping || !state->notice.empty(); };
    if (wanted) {
      state->changed.wait_for(lock, kBetweenLooks, called);
    } else {
      state->idle = true;
      state->changed.wait(lock, [&] { return called() || state->asked.load(); });
      state->idle = false;
    }
  }
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace laconic::plugin
