#include "transport/mpi/link.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "laconic/mpi.h"
#include "transport/failure.h"

namespace laconic {

std::mutex& mpi_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace laconic

namespace laconic::mpi {
namespace {

constexpr int kNoticeTag = 1;
constexpr Milliseconds kNoticeTime{1000};

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

Link::Link(MPI_Comm parent, Milliseconds timeout) {
  failures_ = duplicate(parent, timeout);
  std::lock_guard lock(mpi_mutex());
  require_success(MPI_Comm_rank(failures_, &rank_), "MPI_Comm_rank");
  require_success(MPI_Comm_size(failures_, &size_), "MPI_Comm_size");
  notices_sent_.reserve(static_cast<std::size_t>(size_));
}

bool Link::poll(Clock::time_point deadline, FunctionRef<std::string()> name, FunctionRef<bool()> done) {
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

void Link::complete(MPI_Request& request, std::string_view what, Milliseconds timeout) {
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

void Link::meet(MPI_Comm communicator, std::string_view what, Milliseconds timeout) {
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

bool Link::ends_nevertheless(MPI_Request& request) {
  const auto deadline = deadline_after(kGrace);
  for (Backoff backoff; Clock::now() < deadline; backoff.pause()) {
    std::lock_guard lock(mpi_mutex());
    int done = 0;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (done != 0) return true;
  }
  return false;
}

MPI_Comm Link::duplicate(MPI_Comm parent, Milliseconds timeout) {
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

void Link::look() {
  if (failed() || failures_ == MPI_COMM_NULL) return;
  int there = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, kNoticeTag, failures_, &there, &status) != MPI_SUCCESS || there == 0) return;
  FailureNotice notice;
  // The notice is short enough to have arrived whole, so this does not block.
  const int code =
      MPI_Recv(&notice, sizeof(notice), MPI_BYTE, status.MPI_SOURCE, kNoticeTag, failures_, MPI_STATUS_IGNORE);
  const std::size_t length = std::min<std::size_t>(notice.length, sizeof(notice.text));
  failure_ = "rank " + std::to_string(status.MPI_SOURCE) + " failed";
  if (code == MPI_SUCCESS) failure_ += ": " + std::string(notice.text, length);
  failed_.store(true, std::memory_order_release);
}

void Link::throw_if_failed(std::string_view what) const {
  if (failed()) throw PeerFailure(failure_ + " (seen in " + std::string(what) + ")");
}

/// Posts the notices; false if there was a failure before.
bool Link::announce(std::string_view reason) {
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

void Link::fail(std::string_view reason) noexcept try {
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

void Link::free() noexcept {
  std::lock_guard lock(mpi_mutex());
  MPI_Comm_free(&failures_);
}

}  // namespace laconic::mpi
