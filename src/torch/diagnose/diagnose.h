#pragma once

#include <string>
#include <vector>

#include "experiment/run.h"
#include "torch/diagnose/curvature.h"
#include "torch/diagnose/gradient_report.h"

// What a network's loss looks like around a point. `workload` is a task_workload of the same configuration;
// InvalidConfig where it is another one.

namespace laconic {

struct NetworkPoint {
  std::uint32_t step = 0;           ///< steps that led there
  std::vector<float> model{};       ///< all parameters, in registration order
  std::vector<float> statistics{};  ///< of batch norm; empty: estimated there, on the sample
};

/// Where the run starts.
NetworkPoint start_point(const RunConfig& config, const Workload& workload);

/// The point that the run would test there: what the method reads out of the workers' models, with the statistics of
/// that test. Error where the checkpoint is not sound.
NetworkPoint checkpoint_point(const RunConfig& config, const Workload& workload, const std::string& checkpoint);

struct FlatnessOptions {
  std::uint32_t samples = 250;  ///< of the training set, drawn once; all where there are fewer
  std::uint32_t batch = 100;    ///< samples of one pass: a matter of memory
  int probes = 20;
  LanczosOptions lanczos{};
  std::uint64_t seed = 1;  ///< of sample, probes and starts
};

/// The Hessian of the mean loss over the sample, at the point: batch norm by the point's statistics, no dropout, images
/// as the task gives them in its first epoch.
struct Flatness {
  Estimate trace;
  LargestEigenvalue largest;
  double loss = 0.0;
  std::uint32_t samples = 0;
};

/// Products by double backward, one a probe and one a step of Lanczos. In the calling thread, with the run's number of
/// torch threads; a function of its arguments, bit for bit.
Flatness flatness(const RunConfig& config, const Workload& workload, const NetworkPoint& point,
                  const FlatnessOptions& options, const ShareDone& progress = {});

}  // namespace laconic
