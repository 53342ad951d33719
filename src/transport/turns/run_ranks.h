#pragma once

#include <functional>

#include "laconic/communicator.h"

namespace laconic {

/// run_ranks with ranks that take turns on the caller's thread: a rank runs until it waits for the others. A turn costs
/// less than a microsecond, whereas waking a thread costs several. So a round of twenty small workers costs little more
/// than its arithmetic, and one run per core can go on at the same time. The results are the same bit for bit. It is
/// for lockstep runs: if a rank sleeps, all sleep, and a rank that waits for another by other means than its
/// communicator waits forever. A rank must not wait inside a catch block. Sanitizers cannot follow the change of
/// stacks, so under a sanitizer it is run_ranks.
void run_ranks_in_turn(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace laconic
