#pragma once

#include <functional>

#include "experiment/run.h"
#include "torch/diagnose/geometry.h"

namespace laconic {

/// Called from time to time with the share of the work that is done.
using ShareDone = std::function<void(double share)>;

struct GradientOptions {
  std::uint32_t batches = 32;    ///< per worker
  std::uint32_t first_step = 0;  ///< the batches are those of this step and the next ones
};

/// Mini-batch gradients of all workers at one point.
struct GradientReport {
  std::uint64_t parameters = 0;
  std::uint64_t gradients = 0;  ///< number of mini-batches of all workers together
  double loss = 0.0;            ///< mean over the mini-batches
  double gradient_norm = 0.0;   ///< of the mean gradient
  double gradient_density = 0.0;
  double noise_density = 0.0;  ///< of the standard deviation of each coordinate
  /// |noise|_2^2 of one mini-batch divided by |gradient|_2^2, from which the contribution of noise is subtracted;
  /// infinite if nothing is left.
  double noise_to_signal = 0.0;
  /// The share of the mean gradient's |.|_2^2 that comes from noise. Near 1, the mean gradient is noise, and so is its
  /// density.
  double doubt = 0.0;
  EnergyShares energy;  ///< of a worker's mini-batch gradient, from which it would select; mean over all
  double majority = 0.0;
  double unanimous = 0.0;
  double silent = 0.0;
};

/// Computes each worker's gradients on its own shard, as in training, but adversaries are honest here. The model is not
/// changed. Throws InvalidConfig if there are fewer than two gradients.
GradientReport gradient_report(const RunConfig& config, const Workload& workload, View<const float> model,
                               const GradientOptions& options, const ShareDone& progress = {});

}  // namespace laconic
