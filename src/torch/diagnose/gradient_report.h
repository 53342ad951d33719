#pragma once

#include <functional>

#include "experiment/run.h"
#include "torch/diagnose/geometry.h"

namespace laconic {

/// What share of the work is done; called now and then.
using ShareDone = std::function<void(double share)>;

struct GradientOptions {
  std::uint32_t batches = 32;    ///< of each worker
  std::uint32_t first_step = 0;  ///< the batches are those of this step and the next ones
};

/// Mini-batch gradients of all workers at one point.
struct GradientReport {
  std::uint64_t parameters = 0;
  std::uint64_t gradients = 0;  ///< mini-batches that were taken, of all workers together
  double loss = 0.0;            ///< mean of theirs
  double gradient_norm = 0.0;   ///< of the mean gradient
  double gradient_density = 0.0;
  double noise_density = 0.0;  ///< of the standard deviation of each coordinate
  /// |noise|_2^2 of one mini-batch over |gradient|_2^2, the latter freed of what noise adds to it; infinite where
  /// nothing is left.
  double noise_to_signal = 0.0;
  /// What noise adds to the mean gradient's |.|_2^2, as a share of it: near 1 the mean is noise, and so is its density.
  double doubt = 0.0;
  EnergyShares energy;  ///< of a worker's mini-batch gradient, which is what it would select from; mean over all
  double majority = 0.0;
  double unanimous = 0.0;
  double silent = 0.0;
};

/// Each worker's gradients on its own shard, as it would take them in training; adversaries are honest here. The model
/// is not changed. InvalidConfig unless there are two gradients or more.
GradientReport gradient_report(const RunConfig& config, const Workload& workload, View<const float> model,
                               const GradientOptions& options, const ShareDone& progress = {});

}  // namespace laconic
