#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "experiment/run.h"
#include "transport/agreement.h"

namespace laconic::tools {

/// Where runs run: threads of this process, or, started by mpirun in a build with MPI, one rank in each process.
class Runner {
 public:
  virtual ~Runner() = default;
  /// Processes that there are; 0: this one alone, with as many threads as a run has workers.
  virtual int processes() const = 0;
  /// True in the one process that prints and writes.
  virtual bool speaks() const = 0;
  /// InvalidConfig on all processes, naming the first of the fields that differs between them. Collective.
  virtual void require_same(const std::vector<AgreedField>& fields) = 0;
  /// This process's rank of the run, or rank 0 of its threads. The observer sees rank 0.
  virtual RunResult run(const RunConfig& config, const Workload& workload, Observer& observer,
                        const CheckpointPlan& checkpoints = {}) = 0;
};

/// InvalidConfig where checkpoints are wanted and there is no folder for them.
void require_place_for_checkpoints(const RunConfig& config, const std::string& out);

/// Calls `body` with a runner. Under mpirun an error is told once, by the lowest rank that still answers.
void with_runner(const std::function<void(Runner&)>& body);

}  // namespace laconic::tools
