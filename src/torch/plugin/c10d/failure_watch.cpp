#include "torch/plugin/c10d/failure_watch.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "transport/deadline.h"
#include "transport/failure.h"

namespace laconic::plugin {
namespace {

constexpr const char* kCountKey = "laconic/failures";
constexpr const char* kNoticeKey = "laconic/failure";
constexpr const char* kRollCallKey = "laconic/roll call";
constexpr Milliseconds kBetweenLooks{100};
constexpr Milliseconds kNoticeTime{1000};
constexpr Milliseconds kFarewellTime{1000};
/// A rank that waits for others looks at the store every 100 ms, and the store may be slow.
constexpr Milliseconds kRollCallTime{2000};
/// A rank that was first to count its failure writes the notice at once.
constexpr Milliseconds kWordTime{500};

std::string here_key(int rank) { return "laconic/here/" + std::to_string(rank); }

/// Stores of earlier versions of torch cannot be cloned.
template <class Store>
c10::intrusive_ptr<Store> cloned(const c10::intrusive_ptr<Store>& store) {
  if constexpr (requires(Store & given) { given.clone(); }) {
    return store->clone();
  } else {
    return store;
  }
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

c10::intrusive_ptr<c10d::Store> own_connection(const c10::intrusive_ptr<c10d::Store>& store) {
  return cloned<c10d::Store>(store);
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text.append(i == 0 ? "" : ", ").append(std::to_string(ranks[i]));
  return text;
}

/// What somebody waits for while the thread does it.
struct FailureWatch::Job {
  std::function<void(State&)> work;
  bool done = false;
};

struct FailureWatch::State {
  State(c10::intrusive_ptr<c10d::Store> store, int own_rank, int ranks)
      : given(std::move(store)), rank(own_rank), size(ranks) {}

  const c10::intrusive_ptr<c10d::Store> given;
  const int rank;
  const int size;
  std::atomic<bool> failed{false};
  std::atomic<bool> asked{false};

  // Of whoever talks to the store: the thread, or the callers if there is none.
  c10::intrusive_ptr<c10d::Store> connected;
  Clock::time_point next_look{};
  bool store_answers = true;
  std::int64_t answered = 0;  ///< roll calls

  std::mutex mutex;
  std::condition_variable changed;
  std::string failure;  ///< written once, before `failed`
  std::deque<std::shared_ptr<Job>> jobs;
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

  void attempt(const std::function<void(State&)>& work) noexcept {
    try {
      if (store_answers) work(*this);
    } catch (...) {
      store_answers = false;
    }
  }

  void look() {
    if (failed.load()) return;
    if (store().check({kRollCallKey})) answer();
    if (!store().check({kNoticeKey})) return;
    const std::vector<std::uint8_t> bytes = store().get(kNoticeKey);
    note(std::string(bytes.begin(), bytes.end()));
  }

  void answer() {
    const std::int64_t calls = store().add(kRollCallKey, 0);
    if (calls == answered) return;
    store().set(here_key(rank), bytes_of(std::to_string(calls)));
    answered = calls;
  }

  bool answers(int other, std::int64_t call) {
    if (!store().check({here_key(other)})) return false;
    const std::vector<std::uint8_t> bytes = store().get(here_key(other));
    return std::stoll(std::string(bytes.begin(), bytes.end())) >= call;
  }

  /// False: somebody was first.
  bool post(const std::string& text) {
    if (store().add(kCountKey, 1) != 1) return false;
    store().set(kNoticeKey, bytes_of(text));
    return true;
  }

  /// Who does not answer. Ends early when all have, or a failure is told.
  std::vector<int> call_roll() {
    const std::int64_t call = store().add(kRollCallKey, 1);
    answer();
    const auto deadline = deadline_after(kRollCallTime);
    for (;;) {
      std::vector<int> silent;
      for (int other = 0; other < size; ++other) {
        if (other != rank && !answers(other, call)) silent.push_back(other);
      }
      look();
      if (silent.empty() || failed.load() || Clock::now() > deadline) return silent;
      std::this_thread::sleep_for(Milliseconds(20));
    }
  }

  /// Finds out who has ended, and tells all.
  void lose(const std::string& reason) {
    look();
    if (failed.load()) return;
    const std::vector<int> silent = call_roll();
    if (failed.load()) return;
    const std::string text =
        silent.empty() ? "a connection broke though all ranks answer: " + reason
                       : ranks_text(silent) + (silent.size() == 1 ? " has ended or is out of reach: "
                                                                  : " have ended, are out of reach or do not answer: ") +
                             reason;
    if (!post(text)) {
      const auto deadline = deadline_after(kWordTime);
      for (; !failed.load() && Clock::now() < deadline; look()) std::this_thread::sleep_for(Milliseconds(10));
    }
    note(text);
  }
};

FailureWatch::FailureWatch(c10::intrusive_ptr<c10d::Store> store, int rank, int size)
    : state_(std::make_shared<State>(std::move(store), rank, size)) {}

FailureWatch::~FailureWatch() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  if (state_->started) state_->changed.wait_for(lock, kFarewellTime, [this] { return state_->ended; });
}

int FailureWatch::rank() const { return state_->rank; }

bool FailureWatch::failed() const { return state_->failed.load(std::memory_order_acquire); }

void FailureWatch::throw_if_failed(std::string_view seen_in) const {
  if (failed()) throw PeerFailure(state_->failure + " (seen in " + std::string(seen_in) + ")");
}

/// With the lock. False: no thread is to be had.
bool FailureWatch::start_thread() noexcept {
  if (state_->started) return true;
  try {
    std::thread([state = state_] { run(state); }).detach();
  } catch (...) {
    return false;
  }
  state_->started = true;
  return true;
}

void FailureWatch::ask() noexcept {
  if (failed() || state_->asked.exchange(true)) return;
  {
    std::lock_guard lock(state_->mutex);
    if (start_thread()) {
      if (state_->idle) state_->changed.notify_all();
      return;
    }
  }
  state_->asked.store(false);
  if (Clock::now() < state_->next_look) return;
  state_->next_look = Clock::now() + kBetweenLooks;
  state_->attempt([](State& state) { state.look(); });
}

/// On the thread, for which this waits as long as `patience`; here, where there is none.
void FailureWatch::do_job(const std::shared_ptr<Job>& job, Milliseconds patience) {
  std::unique_lock lock(state_->mutex);
  if (start_thread()) {
    state_->jobs.push_back(job);
    state_->changed.notify_all();
    state_->changed.wait_for(lock, patience, [&] { return job->done; });
    return;
  }
  lock.unlock();
  state_->attempt(job->work);
}

void FailureWatch::tell(std::string_view what, std::string_view reason) noexcept {
  try {
    const std::string rank = "rank " + std::to_string(state_->rank);
    const std::string said = std::string(what) + ": " + std::string(reason);
    if (!state_->note(rank + ", this one, " + said)) return;
    const auto post = [text = rank + " " + said](State& state) { state.post(text); };
    do_job(std::make_shared<Job>(Job{.work = post}), kNoticeTime);
  } catch (...) {
    // Nothing more can be done: the others will see a timeout.
  }
}

void FailureWatch::fail(std::string_view reason) noexcept { tell("failed", reason); }

void FailureWatch::give_up(std::string_view reason) noexcept { tell("gave up", reason); }

void FailureWatch::lose(std::string_view reason) noexcept {
  try {
    const auto work = [text = std::string(reason)](State& state) { state.lose(text); };
    do_job(std::make_shared<Job>(Job{.work = work}), 2 * kRollCallTime);
    if (failed()) return;
    const std::string text = std::string(reason) +
                             "; a rank has ended or is out of reach, and the store of the process group does not "
                             "answer: its host, rank 0 or torchrun's agent, may be the one";
    state_->note(text);
  } catch (...) {
    // No memory: the caller has the engine's own error.
  }
}

std::vector<int> FailureWatch::silent_ranks() noexcept {
  try {
    const auto silent = std::make_shared<std::vector<int>>();  // the thread may be late
    const auto job = std::make_shared<Job>(Job{.work = [silent](State& state) { *silent = state.call_roll(); }});
    do_job(job, 2 * kRollCallTime);
    std::lock_guard lock(state_->mutex);
    if (job->done || !state_->started) return *silent;
  } catch (...) {
    // As above.
  }
  return {};
}

void FailureWatch::run(const std::shared_ptr<State>& state) noexcept {
  std::unique_lock lock(state->mutex);
  while (!state->stopping || !state->jobs.empty()) {
    const std::shared_ptr<Job> job = state->jobs.empty() ? nullptr : state->jobs.front();
    if (job) state->jobs.pop_front();
    const bool wanted = state->asked.exchange(false);
    lock.unlock();
    if (job) state->attempt(job->work);
    if (wanted) state->attempt([](State& each) { each.look(); });
    lock.lock();
    if (job) job->done = true;
    state->changed.notify_all();
    const auto called = [&] { return state->stopping || !state->jobs.empty(); };
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
