#pragma once

#include <memory>
#include <string>

#include "experiment/run.h"

namespace laconic {

/// The run's network on its task. Each worker has a replica; workers that are threads share the data. Data order,
/// augmentation and dropout come from our own random streams, keyed by (seed, step, worker) and (seed, epoch, sample),
/// so a run is the same on threads and under MPI, and a resumed run continues bit for bit. Throws InvalidConfig for a
/// task, model or file that does not exist.
std::unique_ptr<Workload> task_workload(const RunConfig& config, const std::string& data_folder);

}  // namespace laconic
