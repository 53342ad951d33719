#include <thread>

#include "base/no_thread.h"
#include "laconic/threads.h"
#include "transport/first_cause.h"

namespace laconic {
namespace {

/// The ranks whose threads have started are told.
void refuse_start(Communicator& communicator, const std::exception& reason, FirstCause& cause) {
  const Error error = no_thread("the thread of rank " + std::to_string(communicator.rank()) + " of " +
                                    std::to_string(communicator.size()) + " could not be started",
                                "the number of ranks (--workers) or the threads of each (--threads)", reason);
  cause.offer(std::make_exception_ptr(error), false);
  communicator.fail(error.what());
}

}  // namespace

void run_ranks(int ranks, const std::function<void(Communicator&)>& body, std::shared_ptr<Place> copying) {
  auto communicators = thread_communicators(ranks, std::move(copying));
  FirstCause cause;
  {
    std::vector<std::jthread> threads;
    threads.reserve(communicators.size());
    for (auto& communicator : communicators) {
      try {
        threads.emplace_back([&body, &cause, &communicator] {
          cause.run(*communicator, body);
          communicator.reset();  // the others need not wait for a rank that has ended
        });
      } catch (const std::exception& reason) {
        refuse_start(*communicator, reason, cause);
        break;
      }
    }
  }
  cause.rethrow();
}

}  // namespace laconic
