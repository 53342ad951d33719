#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "laconic/communicator.h"
#include "laconic/place.h"

namespace laconic {

/// The largest number of ranks of a run, whether they are threads or processes.
inline constexpr int kMostRanks = 1024;

/// The largest number of threads of each rank's kernels (CpuOptions::threads).
inline constexpr int kMostThreads = 1024;

/// Makes `ranks` communicators that reach each other inside this process. Pass one to each thread. If the ranks' places
/// are on one GPU, pass another place on it (cuda_place): messages are then copied on the GPU, and not by way of CPU
/// memory. The engine's own reductions stay on the CPU.
std::vector<std::unique_ptr<Communicator>> thread_communicators(int ranks, std::shared_ptr<Place> copying = nullptr);

/// Runs `body` once per rank, each in its own thread, and returns when all have ended. If a rank throws, the other
/// ranks' waits fail. The first exception that was not caused by another rank's failure is rethrown here.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body, std::shared_ptr<Place> copying = nullptr);

}  // namespace laconic
