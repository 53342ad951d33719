#pragma once

#include <memory>
#include <string>

#include "experiment/run.h"

namespace laconic {

/// The run's network on its task: a replica a worker, the data shared by workers that are threads. Data order,
/// augmentation and dropout come from our own streams, keyed by (seed, step, worker) and (seed, epoch, sample), so a
/// run is the same on threads and under MPI, and goes on bit for bit. InvalidConfig for a task, model or file that is
/// not there.
std::unique_ptr<Workload> task_workload(const RunConfig& config, const std::string& data_folder);

}  // namespace laconic
