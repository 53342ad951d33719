#include "transport/turns/run_ranks.h"

#include "laconic/threads.h"
#include "transport/first_cause.h"
#include "transport/threads/world.h"
#include "transport/turns/communicator.h"

namespace laconic {

void run_ranks_in_turn(int ranks, const std::function<void(Communicator&)>& body) {
  if (!turns::kStacksMayChange) return run_ranks(ranks, body);
  const auto world = std::make_shared<threads::World>(ranks);
  turns::Turns stacks(world->ranks());
  FirstCause cause;
  stacks.run([&](std::size_t rank) {
    turns::TurnCommunicator communicator(stacks, std::make_unique<threads::Channel>(world, rank));
    cause.run(communicator, body);
  });
  cause.rethrow();
}

}  // namespace laconic
