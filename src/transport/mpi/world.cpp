#include "transport/mpi/world.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/no_thread.h"
#include "transport/failure.h"
#include "transport/mpi/progress.h"

namespace laconic {

std::mutex& mpi_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace laconic

namespace laconic::mpi {
namespace {

// What ranks tell each other beside their work: a notice of failure; the other two are empty messages.
constexpr int kNoticeTag = 1;
constexpr int kRollCallTag = 2;
constexpr int kHereTag = 3;
constexpr Milliseconds kNoticeTime{1000};

/// The last part of a wait, for the others to answer in. Nobody is asked in a short one: it is somebody's own polling.
constexpr Milliseconds kRollCallTime{2000};
constexpr Milliseconds kShortWait{100};

/// How long a meeting goes on after a failure: ranks that have all come meet within less.
constexpr Milliseconds kGrace{100};

/// How a wait goes from eager to patient: messages between ranks in step take microseconds, a straggler milliseconds.
class Backoff {
 public:
  void pause() {
    const auto waited = Clock::now() - start_;
    if (waited < std::chrono::microseconds(50)) return;
    if (waited < std::chrono::microseconds(500)) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(waited < std::chrono::milliseconds(20) ? 20 : 100));
  }

 private:
  Clock::time_point start_ = Clock::now();
};

}  // namespace

void require_success(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw TransportError("MPI failed in " + std::string(what) + ": " +
                       std::string(text, static_cast<std::size_t>(length)) +
                       "; see the other ranks' output, and start the run again");
}

World::World(MPI_Comm parent, const MpiOptions& options, Milliseconds timeout) : options_(options) {
  MPI_Query_thread(&thread_level_);
  failures_ = duplicate(parent, timeout);
  std::lock_guard lock(mpi_mutex());
  require_success(MPI_Comm_rank(failures_, &rank_), "MPI_Comm_rank");
  require_success(MPI_Comm_size(failures_, &size_), "MPI_Comm_size");
  notices_sent_.reserve(static_cast<std::size_t>(size_));
  heard_.resize(static_cast<std::size_t>(size_));
}

World::~World() = default;

void World::start_progress() {
  if (!options_.progress_thread || thread_level_ < MPI_THREAD_SERIALIZED) return;
  try {
    progress_ = std::make_unique<Progress>(*this);
  } catch (const std::exception& reason) {
    const Error error = no_thread("the progress thread of MPI could not be started",
                                  "the threads per rank (--threads) or the ranks per machine", reason);
    fail(error.what());
    throw error;
  }
}

void World::stop_progress() { progress_.reset(); }

void World::wake_progress() {
  if (progress_) progress_->wake();
}

void World::serve_counters() {
  if (progress_) progress_->serve_counters();
}

bool World::poll(Clock::time_point deadline, FunctionRef<std::string()> name, FunctionRef<bool()> done) {
  struct Count {
    std::atomic<int>& pollers;
    explicit Count(std::atomic<int>& all) : pollers(all) { pollers.fetch_add(1, std::memory_order_relaxed); }
    ~Count() { pollers.fetch_sub(1, std::memory_order_relaxed); }
  } count(pollers_);
  Backoff backoff;
  for (;;) {
    {
      std::lock_guard lock(mpi_mutex());
      if (done()) return true;
      look();
    }
    if (failed()) throw_if_failed(name());
    if (Clock::now() > deadline) return false;
    backoff.pause();
  }
}

bool World::poll_with_roll_call(Milliseconds timeout, FunctionRef<std::string()> name, FunctionRef<bool()> done) {
  const auto deadline = deadline_after(timeout);
  if (timeout < kShortWait) return poll(deadline, name, done);
  if (poll(deadline - std::min(kRollCallTime, timeout / 2), name, done)) return true;
  call_roll();
  return poll(deadline, name, done);
}

void World::call_roll() {
  std::lock_guard lock(mpi_mutex());
  std::fill(heard_.begin(), heard_.end(), 0);
  for (int other = 0; other < size_; ++other) say(kRollCallTag, other);
}

/// An empty message needs no memory, so nobody has to wait for its end.
void World::say(int tag, int other) const {
  MPI_Request request = MPI_REQUEST_NULL;
  if (other == rank_) return;
  if (MPI_Isend(nullptr, 0, MPI_BYTE, other, tag, failures_, &request) == MPI_SUCCESS) MPI_Request_free(&request);
}

std::vector<int> World::silent_ranks() const {
  std::lock_guard lock(mpi_mutex());
  std::vector<int> silent;
  for (int other = 0; other < size_; ++other) {
    if (other != rank_ && heard_[static_cast<std::size_t>(other)] == 0) silent.push_back(other);
  }
  return silent;
}

void World::throw_timeout(const std::string& name, Milliseconds timeout) const {
  const std::string start =
      name + " did not end within " + std::to_string(timeout.count()) + " ms on rank " + std::to_string(rank_) + ": ";
  const std::string end = "; see what the others do, or raise the timeout";
  if (timeout < kShortWait) throw WaitTimeout(start + "a rank has vanished, hangs, or computes for longer" + end, {});
  const std::vector<int> silent = silent_ranks();
  if (silent.empty()) {
    throw WaitTimeout(start + "all ranks answer, so one computes for longer or has called something else" + end, {});
  }
  std::string names = std::to_string(silent.front());
  for (std::size_t i = 1; i < silent.size(); ++i) names += ", " + std::to_string(silent[i]);
  const char* who = silent.size() == 1 ? "rank " : "ranks ";
  const char* what = silent.size() == 1 ? " does not answer; it was stopped, has vanished, or computes for longer"
                                        : " do not answer; they were stopped, have vanished, or compute for longer";
  throw WaitTimeout(start + who + names + what + ": see what happens there, or raise the timeout", silent);
}

void World::complete(MPI_Request& request, std::string_view what, Milliseconds timeout) {
  const auto name = [&] { return std::string(what); };
  const bool ended = poll(deadline_after(timeout), name, [&] {
    int done = 0;
    require_success(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
    return done != 0;
  });
  if (ended) return;
  throw TransportError(std::string(what) + " did not end within " + std::to_string(timeout.count()) +
                       " ms: every rank must call it; see what the others do, or raise the timeout");
}

void World::meet(MPI_Comm communicator, std::string_view what, Milliseconds timeout) {
  MPI_Request request = MPI_REQUEST_NULL;
  {
    std::lock_guard lock(mpi_mutex());
    require_success(MPI_Ibarrier(communicator, &request), what);
  }
  try {
    complete(request, what, timeout);
  } catch (const PeerFailure&) {
    if (!ends_nevertheless(request)) throw;
  }
}

bool World::ends_nevertheless(MPI_Request& request) {
  const auto deadline = deadline_after(kGrace);
  for (Backoff backoff; Clock::now() < deadline; backoff.pause()) {
    std::lock_guard lock(mpi_mutex());
    int done = 0;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (done != 0) return true;
  }
  return false;
}

MPI_Comm World::duplicate(MPI_Comm parent, Milliseconds timeout) {
  auto result = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  {
    std::lock_guard lock(mpi_mutex());
    require_success(MPI_Comm_idup(parent, result.get(), &request), "MPI_Comm_idup");
  }
  complete_or_keep(request, result, "to duplicate the communicator", timeout);
  std::lock_guard lock(mpi_mutex());
  require_success(MPI_Comm_set_errhandler(*result, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return *result;
}

/// MPI splits in a blocking call only. All ranks have met just before, so it blocks for the time of its own messages.
MPI_Comm World::split(MPI_Comm parent, int color, Milliseconds timeout) {
  meet(parent, "to split the communicator", timeout);
  std::lock_guard lock(mpi_mutex());
  int rank = 0;
  require_success(MPI_Comm_rank(parent, &rank), "MPI_Comm_rank");
  MPI_Comm subgroup = MPI_COMM_NULL;
  require_success(MPI_Comm_split(parent, color, rank, &subgroup), "MPI_Comm_split");
  require_success(MPI_Comm_set_errhandler(subgroup, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return subgroup;
}

void World::look() {
  if (failed() || failures_ == MPI_COMM_NULL) return;
  int there = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, failures_, &there, &status) != MPI_SUCCESS || there == 0) return;
  receive(status);
}

/// Whoever tells anything is there. All messages are short enough to have arrived whole, so this does not block.
void World::receive(const MPI_Status& status) {
  heard_[static_cast<std::size_t>(status.MPI_SOURCE)] = 1;
  if (status.MPI_TAG == kNoticeTag) return receive_notice(status.MPI_SOURCE);
  MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, failures_, MPI_STATUS_IGNORE);
  if (status.MPI_TAG == kRollCallTag) say(kHereTag, status.MPI_SOURCE);
}

void World::receive_notice(int source) {
  FailureNotice notice;
  const int code = MPI_Recv(&notice, sizeof(notice), MPI_BYTE, source, kNoticeTag, failures_, MPI_STATUS_IGNORE);
  const std::size_t length = std::min<std::size_t>(notice.length, sizeof(notice.text));
  failure_ = "rank " + std::to_string(source) + " failed";
  if (code == MPI_SUCCESS) failure_ += ": " + std::string(notice.text, length);
  failed_.store(true, std::memory_order_release);
  // This rank says nothing more, and is not to be taken for one that is silent.
  for (int other = 0; other < size_; ++other) say(kHereTag, other);
}

void World::throw_if_failed(std::string_view what) const {
  if (failed()) throw PeerFailure(failure_ + " (seen in " + std::string(what) + ")");
}

/// Posts the notices; false if there was a failure before.
bool World::announce(std::string_view reason) {
  std::lock_guard lock(mpi_mutex());
  if (failed()) return false;
  notice_.rank = rank_;
  notice_.length = static_cast<std::uint32_t>(std::min(reason.size(), sizeof(notice_.text)));
  std::memcpy(notice_.text, reason.data(), notice_.length);
  failure_ = "rank " + std::to_string(rank_) + ", this one, failed: " + std::string(reason);
  failed_.store(true, std::memory_order_release);
  for (int other = 0; other < size_; ++other) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (other == rank_) continue;
    if (MPI_Isend(&notice_, sizeof(notice_), MPI_BYTE, other, kNoticeTag, failures_, &request) == MPI_SUCCESS) {
      notices_sent_.push_back(request);
    }
  }
  return true;
}

void World::fail(std::string_view reason) noexcept try {
  if (!announce(reason)) return;
  const auto deadline = deadline_after(kNoticeTime);
  Backoff backoff;
  for (int done = 0; done == 0 && Clock::now() < deadline; backoff.pause()) {
    std::lock_guard lock(mpi_mutex());
    const int code =
        MPI_Testall(static_cast<int>(notices_sent_.size()), notices_sent_.data(), &done, MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS) return;
  }
} catch (...) {
  // Nothing more can be done: the others will see a timeout.
}

void World::free() noexcept {
  std::lock_guard lock(mpi_mutex());
  MPI_Comm_free(&failures_);
}

}  // namespace laconic::mpi
