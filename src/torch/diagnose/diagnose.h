#pragma once

#include <string>
#include <vector>

#include "experiment/run.h"
#include "torch/diagnose/curvature.h"
#include "torch/diagnose/gradient_report.h"

// The shape of a network's loss around a point. `workload` must be a task_workload of the same configuration; otherwise
// these functions throw InvalidConfig.

namespace laconic {

struct NetworkPoint {
  std::uint32_t step = 0;           ///< number of steps to this point
  std::vector<float> model{};       ///< all parameters, in registration order
  std::vector<float> statistics{};  ///< of batch norm; empty: they are estimated at the point, on the sample
};

/// The point where the run starts.
NetworkPoint start_point(const RunConfig& config, const Workload& workload);

/// The point that the run would test at the checkpoint: what the method reads out of the workers' models, with the
/// statistics of that test. Throws Error if the checkpoint is damaged.
NetworkPoint checkpoint_point(const RunConfig& config, const Workload& workload, const std::string& checkpoint);

struct FlatnessOptions {
  std::uint32_t samples = 250;  ///< number of training samples, drawn once; all if there are fewer
  std::uint32_t batch = 100;    ///< samples per pass; affects only memory
  int probes = 20;
  LanczosOptions lanczos{};
  std::uint64_t seed = 1;  ///< of sample, probes and starts
};

/// Figures of the Hessian of the mean loss over the sample, at the point. Batch norm uses the point's statistics, there
/// is no dropout, and images are those of the task's first epoch.
struct Flatness {
  Estimate trace;
  LargestEigenvalue largest;
  double loss = 0.0;
  std::uint32_t samples = 0;
};

/// Computes products by double backward, one per probe and one per step of Lanczos. It runs in the calling thread, with
/// the run's number of torch threads. The result is a function of the arguments, bit for bit.
Flatness flatness(const RunConfig& config, const Workload& workload, const NetworkPoint& point,
                  const FlatnessOptions& options, const ShareDone& progress = {});

}  // namespace laconic
