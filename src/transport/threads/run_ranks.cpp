#include <exception>
#include <mutex>
#include <thread>

#include "base/memory.h"
#include "base/no_thread.h"
#include "laconic/threads.h"
#include "transport/failure.h"

namespace laconic {
namespace {

/// The first exception that no other rank's failure caused; failing that, the first.
class FirstCause {
 public:
  void offer(std::exception_ptr error, bool caused_by_another) {
    std::lock_guard lock(mutex_);
    if (!error_ || (echo_ && !caused_by_another)) {
      error_ = std::move(error);
      echo_ = caused_by_another;
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  bool echo_ = false;
};

void run_rank(std::unique_ptr<Communicator> communicator, const std::function<void(Communicator&)>& body,
              FirstCause& cause) {
  try {
    body(*communicator);
  } catch (const PeerFailure& error) {
    cause.offer(std::current_exception(), true);
    communicator->fail(error.what());
  } catch (const std::exception& error) {
    cause.offer(std::current_exception(), false);
    communicator->fail(error_text(error));
  } catch (...) {
    cause.offer(std::current_exception(), false);
    communicator->fail("it threw something that is no std::exception");
  }
}

/// The ranks whose threads have started are told.
void refuse_start(Communicator& communicator, const std::exception& reason, FirstCause& cause) {
  const Error error = no_thread("the thread of rank " + std::to_string(communicator.rank()) + " of " +
                                    std::to_string(communicator.size()) + " could not be started",
                                "the number of ranks (--workers) or the threads of each (--threads)", reason);
  cause.offer(std::make_exception_ptr(error), false);
  communicator.fail(error.what());
}

}  // namespace

void run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  auto communicators = thread_communicators(ranks);
  FirstCause cause;
  {
    std::vector<std::jthread> threads;
    threads.reserve(communicators.size());
    for (auto& communicator : communicators) {
      try {
        threads.emplace_back([&body, &cause, &communicator] { run_rank(std::move(communicator), body, cause); });
      } catch (const std::exception& reason) {
        refuse_start(*communicator, reason, cause);
        break;
      }
    }
  }
  cause.rethrow();
}

}  // namespace laconic
