#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "laconic/communicator.h"

namespace laconic {

/// The most ranks of a run, be they threads or processes.
inline constexpr int kMostRanks = 1024;

/// `ranks` communicators that reach each other inside this process: hand one to each thread.
std::vector<std::unique_ptr<Communicator>> thread_communicators(int ranks);

/// Runs `body` once a rank, each in a thread of its own, and returns when all have ended. A rank that throws fails the
/// others' waits; the first exception that was not caused by another rank's failure is thrown again here.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace laconic
