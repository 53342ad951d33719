#include <thread>

#include "laconic/threads.h"
#include "transport/first_cause.h"

namespace laconic {

void run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  auto communicators = thread_communicators(ranks);
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
      } catch (const std::exception& error) {
        cause.offer(std::current_exception(), false);
        communicator->fail(std::string("its thread could not be started: ") + error.what());
        break;
      }
    }
  }
  cause.rethrow();
}

}  // namespace laconic
