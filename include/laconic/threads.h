#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "laconic/communicator.h"

namespace laconic {

/// The largest number of ranks of a run, whether they are threads or processes.
inline constexpr int kMostRanks = 1024;

/// The largest number of threads of each rank's kernels (CpuOptions::threads).
inline constexpr int kMostThreads = 1024;

/// Makes `ranks` communicators that reach each other inside this process. Pass one to each thread.
std::vector<std::unique_ptr<Communicator>> thread_communicators(int ranks);

/// Runs `body` once per rank, each in its own thread, and returns when all have ended. If a rank throws, the other
/// ranks' waits fail. The first exception that was not caused by another rank's failure is rethrown here.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace laconic
