#pragma once

#include <functional>

#include "laconic/communicator.h"

namespace laconic {

/// run_ranks with ranks that take turns on the caller's thread: a rank runs until it waits for the others. A turn costs
/// less than a microsecond where waking a thread costs several, so that a round of twenty small workers costs what its
/// arithmetic does, and as many runs as there are cores go on side by side. Same results bit for bit. For lockstep
/// runs: a rank that sleeps makes all sleep, and one that waits for another by other means than its communicator waits
/// forever. A rank must not wait inside a catch block. Under a sanitizer, which cannot follow the change of stacks, it
/// is run_ranks.
void run_ranks_in_turn(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace laconic
